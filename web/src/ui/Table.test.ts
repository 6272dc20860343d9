// SPDX-License-Identifier: Apache-2.0
import { cleanup, fireEvent, render } from '@testing-library/svelte';
import { createRawSnippet } from 'svelte';
import { afterEach, expect, it, vi } from 'vitest';
import Table from './Table.svelte';
import type { Column } from './table';

afterEach(cleanup);
const columns: Column[] = [
  { key: 'n', title: 'Number', width: '80px', number: true, sortable: true },
  { key: 'text', title: 'Text', width: '120px', sortable: true },
];
const cell = createRawSnippet((row: () => { n: number }, column: () => Column) => ({
  render: () => `<span>${column().key} ${row().n}</span>`,
}));
function show(total: number) {
  const asked = { need: vi.fn(), onselect: vi.fn(), onenter: vi.fn(), onsort: vi.fn() };
  const view = render(Table as never, { label: 'Rows', columns, total, row: (n: number) => ({ n }), cell, sort: { key: 'n', descending: true }, ...asked } as never);
  return { ...asked, ...view, grid: view.getByRole('grid', { name: 'Rows' }) };
}

it('draws only what is in view, of a list of any length', () => {
  const { grid, getAllByRole, need } = show(1_000_000);
  expect(grid.getAttribute('aria-rowcount')).toBe('1000001');
  expect(getAllByRole('row').length).toBeLessThan(30);
  expect(need).toHaveBeenCalledWith(0, expect.any(Number));
});
it('is moved through and acted on by keys alone', async () => {
  const { grid, onselect, onenter } = show(50);
  for (const key of ['ArrowDown', 'j', 'ArrowUp', 'End']) await fireEvent.keyDown(grid, { key });
  expect(onselect.mock.calls.map(([, index]) => index)).toEqual([0, 1, 0, 49]);
  await fireEvent.keyDown(grid, { key: 'Enter' });
  expect(onenter).toHaveBeenCalledWith({ n: 49 }, 49);
  const active = grid.getAttribute('aria-activedescendant');
  expect(grid.querySelector(`[id="${active}"]`)?.getAttribute('aria-selected')).toBe('true');
});
it('stays inside the list', async () => {
  const { grid, onselect } = show(3);
  for (const key of ['Home', 'ArrowUp', 'PageDown', 'PageDown', 'ArrowDown']) await fireEvent.keyDown(grid, { key });
  for (const [, index] of onselect.mock.calls) expect(index).toBeGreaterThanOrEqual(0);
  expect(onselect.mock.calls.at(-1)![1]).toBe(2);
});
it('says how it is sorted, and asks for another order', async () => {
  const { getByRole, onsort } = show(3);
  expect(getByRole('columnheader', { name: /Number/ }).getAttribute('aria-sort')).toBe('descending');
  await fireEvent.click(getByRole('button', { name: /Number/ }));
  await fireEvent.click(getByRole('button', { name: /Text/ }));
  expect(onsort.mock.calls).toEqual([[{ key: 'n', descending: false }], [{ key: 'text', descending: false }]]);
});
