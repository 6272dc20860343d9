// SPDX-License-Identifier: Apache-2.0
import { cleanup, render, screen } from '@testing-library/svelte';
import { afterEach, describe, expect, it } from 'vitest';
import calibrateSample from '../../../tests/samples/calibrate.json';
import type { Calibration } from '../../api/types';
import Figures from './Figures.svelte';
import { best, figureTitle, figureWay, hasPoint, placedText, rateText, roofs, type Figure } from './roofs';

afterEach(cleanup);

const calibrate = calibrateSample.result;

const calibration = calibrate.calibration as unknown as Calibration;

describe('roofs', () => {
  it('are the best of each name, the highest first', () => {
    const r = roofs(calibration.figures);
    expect(r.memory.map((m) => m.label)).toEqual(['last-level cache, read', 'memory, write', 'memory, triad', 'memory, copy', 'memory, read']);
    expect(r.memory[0]?.figure.value).toBeCloseTo(3.9127, 3);
    expect(r.compute.map((c) => c.label)).toEqual(['vector fp32', 'vector fp64', 'vector fp16', 'vector int32']);
  });
  it('a ceiling is a roof only where there is no other', () => {
    const f = (value: number, ceiling_only: boolean): Figure => ({ kind: 'matrix', name: 'bf16', unit: 'GFLOP/s', value, q1: 0, q3: 0, best: 0, ceiling_only });
    expect(best([f(900, true), f(600, false), f(700, false)], 'matrix', 'bf16')?.value).toBe(700);
    expect(best([f(700, false), f(900, true)], 'matrix', 'bf16')?.value).toBe(700);
    expect(best([f(900, true)], 'matrix', 'bf16')?.value).toBe(900);
    expect(best([], 'matrix', 'bf16')).toBeNull();
  });
  it('rates have the unit that suits them', () => {
    expect([rateText(1.907, 'GB/s'), rateText(3350, 'GB/s'), rateText(139.8, 'GFLOP/s'), rateText(27405.4, '1/s'), rateText(35167.5, 'ns')]).toEqual([
      '1.91\u00a0GB/s', '3.35\u00a0TB/s', '140\u00a0GFLOP/s', '27,405\u00a0/s', '35.2\u00a0µs',
    ]);
    const read = calibration.figures.find((f) => f.name === 'read');
    expect(read && figureTitle(read)).toBe('memory, read');
    expect(read && figureWay(read)).toBe('4 bytes an access, 64 blocks of 256 threads, 8 accesses in flight a thread');
  });
  it('a run is placed in the words of the command line', () => {
    expect(placedText({ why: 'this device has no valid calibration' })).toBe('not shown: this device has no valid calibration');
    expect(
      placedText({ impossible: false, share: 0.8412, bound: 'memory', achieved_gbs: 3853.2, memory_roof_gbs: 4580, memory_roof: 'memory, 33 % of the bytes written' }),
    ).toBe('84.1\u00a0% of the speed of light, bound by memory: 3853 GB/s of 4580 (memory, 33 % of the bytes written)');
    expect(placedText({ impossible: true, share: 5540, bound: 'compute', achieved_gflops: 384700, compute_roof_gflops: 69.44, compute_roof: 'vector fp32' })).toBe(
      'impossible, so no share is given: 384700 GFLOP/s of 69.44 (vector fp32)',
    );
    expect(hasPoint({ achieved_gbs: 3 })).toBe(false);
    expect(hasPoint({ intensity: 2, achieved_gflops: 3 })).toBe(true);
  });
});

describe('the table of rates', () => {
  it('shows roofs, and everything on demand, and what was not measured', async () => {
    render(Figures, { calibration });
    expect(screen.getAllByRole('row')).toHaveLength(1 + 3 + 5 + 4);
    screen.getByRole('checkbox').click();
    expect(await screen.findByText('2.11 GB/s')).toBeTruthy();
    expect(screen.getAllByRole('row')).toHaveLength(1 + calibration.figures.length);
    expect(screen.getByText('the device has none that this API names', { exact: false })).toBeTruthy();
  });
});
