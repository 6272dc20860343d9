// SPDX-License-Identifier: Apache-2.0
// What a chart's table shows: the numbers behind the picture, a page at a time.

export interface Column {
  name: string;
  /** Numbers line up at the right. */
  number?: boolean;
}

export interface TableData {
  columns: readonly Column[];
  count: number;
  row(index: number): readonly (string | number)[];
  /** Rows that do not count, and why. */
  gone?(index: number): string;
}

/** A mark that can be pointed at. */
export interface Mark {
  x: number;
  y: number;
  text: string;
}

/** The nearest mark within reach of the pointer. */
export function nearest(marks: readonly Mark[], x: number, y: number, reach = 24): Mark | null {
  let found: Mark | null = null;
  let least = reach * reach;
  for (const m of marks) {
    const d = (m.x - x) ** 2 + (m.y - y) ** 2;
    if (d <= least) {
      least = d;
      found = m;
    }
  }
  return found;
}
