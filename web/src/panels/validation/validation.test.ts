// SPDX-License-Identifier: Apache-2.0
import { cleanup, fireEvent, render, screen, within } from '@testing-library/svelte';
import { afterEach, describe, expect, it } from 'vitest';
import runSample from '../../../tests/samples/run.json';
import runWrongSample from '../../../tests/samples/run_wrong.json';
import type { Validation } from '../../api/types';
import DifferenceGrid from '../../charts/DifferenceGrid.svelte';
import { cellAt, cellText, firstCell, level, shareText, shrunk, spacedHex, ulpBuckets, usable } from './cells';
import View from './View.svelte';

afterEach(cleanup);

const run = runSample.result;
const runWrong = runWrongSample.result;

const wrong = runWrong.validation as unknown as Validation;
const right = run.validation as unknown as Validation;
const map = (rows: number, columns: number, height: number, width: number, shares: Record<number, number>) => ({
  rows, columns, height, width, shares: Array.from({ length: rows * columns }, (_, i) => shares[i] ?? 0),
});

describe('the map of differences', () => {
  it('says which elements a cell covers, as they were counted', () => {
    // Every element of a 7 x 10 region falls into the cell that names it.
    const m = map(3, 4, 7, 10, {});
    for (let r = 0; r < 7; ++r)
      for (let c = 0; c < 10; ++c) {
        const cell = cellAt(m, Math.floor((r * 3) / 7), Math.floor((c * 4) / 10));
        expect(r).toBeGreaterThanOrEqual(cell.rows[0]);
        expect(r).toBeLessThanOrEqual(cell.rows[1]);
        expect(c).toBeGreaterThanOrEqual(cell.columns[0]);
        expect(c).toBeLessThanOrEqual(cell.columns[1]);
      }
    let elements = 0;
    for (let r = 0; r < 3; ++r) for (let c = 0; c < 4; ++c) elements += cellAt(m, r, c).elements;
    expect(elements).toBe(70);
  });
  it('keeps one bad element visible', () => {
    expect(level(1)).toBe(1);
    expect(shareText(1)).toMatch(/at most 0\.1/);
    expect([level(0), level(100), level(500), level(999), level(1000)]).toEqual([0, 1, 2, 3, 4]);
    // Joined cells take the worst, not the mean.
    const small = shrunk(map(1, 64, 1, 640, { 17: 1000 }), 16);
    expect(small.shares.filter((s) => s > 0)).toEqual([1000]);
    expect(small.shares[4]).toBe(1000);
    expect(cellText(small, 0, 4)).toBe('elements 160 to 199: every element differs');
  });
  it('draws nothing that does not fit together', () => {
    expect(usable({ rows: 2, columns: 2, height: 2, width: 2, shares: [1, 2, 3] })).toBe(false);
    expect(usable(null)).toBe(false);
    expect(firstCell(map(2, 3, 2, 3, { 4: 7 }))).toEqual([1, 1]);
    expect(firstCell(map(1, 2, 1, 2, {}))).toBeNull();
  });
  it('is walked by keys and chosen by Enter or a click', async () => {
    const chosen: string[] = [];
    render(DifferenceGrid, { map: map(2, 8, 20, 80, { 9: 500 }), label: 'Where it differs', id: 'g', onchoose: (r: number, c: number) => chosen.push(`${r},${c}`) });
    const grid = screen.getByRole('grid', { name: 'Where it differs' });
    expect(grid.tabIndex).toBe(0);
    expect(grid.getAttribute('aria-activedescendant')).toBe('g-1-1'); // the first that differs
    await fireEvent.keyDown(grid, { key: 'ArrowRight' });
    await fireEvent.keyDown(grid, { key: 'ArrowUp' });
    expect(grid.getAttribute('aria-activedescendant')).toBe('g-0-2');
    await fireEvent.keyDown(grid, { key: 'End' });
    await fireEvent.keyDown(grid, { key: 'ArrowRight' });
    expect(grid.getAttribute('aria-activedescendant')).toBe('g-0-7');
    await fireEvent.keyDown(grid, { key: 'Enter' });
    await fireEvent.click(document.getElementById('g-1-1') as HTMLElement);
    expect(chosen).toEqual(['0,7', '1,1']);
    expect(screen.getAllByRole('gridcell')).toHaveLength(16);
    expect(screen.getByRole('gridcell', { selected: true }).getAttribute('aria-label')).toBe('rows 10 to 19, columns 10 to 19: 50.0\u00a0% of the elements differ');
  });
});

describe('small pieces', () => {
  it('histograms keep their order and their gaps', () => {
    expect(ulpBuckets({ '>16384': 3, '1': 5, '3-4': 1 }).map((b) => [b.name, b.count])).toEqual([
      ['1', 5], ['2', 0], ['3-4', 1], ['5-8', 0], ['9-16', 0], ['17-32', 0], ['33-64', 0], ['65-128', 0], ['129-256', 0], ['257-512', 0], ['513-1024', 0],
      ['1025-2048', 0], ['2049-4096', 0], ['4097-8192', 0], ['8193-16384', 0], ['>16384', 3],
    ]);
    expect(ulpBuckets(undefined)).toEqual([]);
    expect(spacedHex('1501ebbf')).toBe('15 01 eb bf');
  });
});

describe('the view', () => {
  it('shows a wrong variant: map, first difference with both values, histogram', async () => {
    render(View, { validation: wrong, id: 'v' });
    const region = screen.getByRole('region', { name: 'Differences of region 2 (c naive)' });
    expect(within(region).getByText('-1.8359705')).toBeTruthy();
    expect(within(region).getByText('1.8359705')).toBeTruthy();
    expect(within(region).getByText('15 01 eb bf 44 c0 5c c1 e6 d4 54 c0 7c 43 9d 40')).toBeTruthy();
    const bars = within(region).getByRole('table', { name: 'Distance in units in the last place' });
    expect(within(bars).getByRole('row', { name: />16384 25,600 100\.00 %/ })).toBeTruthy();
    await fireEvent.keyDown(within(region).getByRole('grid'), { key: 'Enter' });
    expect(within(region).getByText(/elements 0 to 399:\s+every element differs; the first difference lies here/)).toBeTruthy();
    expect(screen.getByText(/^the reason names what was found first/)).toBeTruthy();
  });
  it('says when something was written out of bounds', () => {
    render(View, { validation: { ...wrong, differences: [], reason: 'it wrote outside its buffers: 64 bytes behind region 2' }, id: 'v' });
    expect(screen.getByRole('row', { name: /written out of bounds yes/ })).toBeTruthy();
  });
  it('tells NaN from wrong values', () => {
    const [d] = wrong.differences;
    if (!d?.values || !wrong.values) throw new Error('the evidence has values');
    const nan = { ...wrong, values: { ...wrong.values, nan_mismatch: 3 }, differences: [{ ...d, values: { ...d.values, nan_mismatch: 3, max_ulp: 18446744073709552000, max_relative: null } }] };
    render(View, { validation: nan, id: 'v' });
    expect(screen.getByRole('row', { name: 'NaN in one only 3' })).toBeTruthy();
    expect(screen.getByText(/not finite relative, no distance in ulp \(NaN\)/)).toBeTruthy();
  });
  it('lists the inputs and the kernels that the check turned down', () => {
    render(View, { validation: { ...right, oracle: { ...right.oracle, shuffle: false } }, id: 'v' });
    expect(screen.getByText('regions 0, 1 with floats changed (seed 2)')).toBeTruthy();
    expect(screen.getByText('1 of 6 were not turned down.')).toBeTruthy();
    expect(screen.getByRole('row', { name: /shuffle\s+not turned down/ })).toBeTruthy();
    expect(screen.getByText(/nothing, in 768 bytes around the regions/)).toBeTruthy();
  });
});
