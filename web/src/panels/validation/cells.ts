// SPDX-License-Identifier: Apache-2.0
// The map of differences of one region: which elements a cell stands for, and what its share says. Not here: drawing.

export interface ValueMap {
  rows: number;
  columns: number;
  height: number;
  width: number;
  shares: readonly number[];
}

/** A map that can be drawn: as many shares as cells. */
export function usable(map: ValueMap | null | undefined): map is ValueMap {
  return (
    map !== null && map !== undefined && map.rows > 0 && map.columns > 0 && map.shares.length === map.rows * map.columns
  );
}

export interface Cell {
  row: number;
  column: number;
  /** Thousandths of its elements that differ; 1 stands for any fewer than that, never for none. */
  share: number;
  /** Element rows and columns that it covers, both ends included. */
  rows: [number, number];
  columns: [number, number];
  elements: number;
}

/** Elements e with floor(e * cells / of) === i, as validate/values.cpp counts them. */
function covered(i: number, of: number, cells: number): [number, number] {
  const first = Math.ceil((i * of) / cells);
  return [first, Math.ceil(((i + 1) * of) / cells) - 1];
}

export function cellAt(map: ValueMap, row: number, column: number): Cell {
  const rows = covered(row, map.height, map.rows);
  const columns = covered(column, map.width, map.columns);
  return {
    row,
    column,
    share: map.shares[row * map.columns + column] ?? 0,
    rows,
    columns,
    elements: (rows[1] - rows[0] + 1) * (columns[1] - columns[0] + 1),
  };
}

export function shareText(share: number): string {
  if (share === 0) return 'no element differs';
  if (share >= 1000) return 'every element differs';
  if (share === 1) return 'at most 0.1\u00a0% of the elements differ';
  return `${(share / 10).toFixed(1)}\u00a0% of the elements differ`;
}

export function cellText(map: ValueMap, row: number, column: number): string {
  const c = cellAt(map, row, column);
  const span = (r: [number, number]): string => (r[0] === r[1] ? `${r[0]}` : `${r[0]} to ${r[1]}`);
  const place = map.height > 1 ? `rows ${span(c.rows)}, columns ${span(c.columns)}` : `elements ${span(c.columns)}`;
  return `${place}: ${shareText(c.share)}`;
}

/** 0 (none) to 4: the steps of the picture, each with its own pattern. */
export function level(share: number): number {
  return share <= 0 ? 0 : share >= 1000 ? 4 : share > 500 ? 3 : share > 100 ? 2 : 1;
}

/** The whole picture at a size that fits: a cell of the picture takes the worst of the map's cells that it covers. */
export function shrunk(map: ValueMap, columns: number): ValueMap {
  if (map.columns <= columns) return map;
  const shares: number[] = new Array<number>(map.rows * columns).fill(0);
  for (let r = 0; r < map.rows; ++r)
    for (let c = 0; c < map.columns; ++c) {
      const at = r * columns + Math.floor((c * columns) / map.columns);
      shares[at] = Math.max(shares[at] ?? 0, map.shares[r * map.columns + c] ?? 0);
    }
  return { ...map, columns, shares };
}

/** Cell of the element at which a region first differs; null where the index says nothing. */
export function firstCell(map: ValueMap): [number, number] | null {
  const at = map.shares.findIndex((s) => s > 0);
  return at < 0 ? null : [Math.floor(at / map.columns), at % map.columns];
}

const kUlpNames = [
  '0', '1', '2', '3-4', '5-8', '9-16', '17-32', '33-64', '65-128', '129-256', '257-512', '513-1024',
  '1025-2048', '2049-4096', '4097-8192', '8193-16384', '>16384', 'nan/inf',
];

/** Buckets in their order, none left out between the first and the last that has something; equal elements are no bucket. */
export function ulpBuckets(ulps: Readonly<Record<string, number>> | null | undefined): { name: string; count: number }[] {
  if (!ulps) return [];
  const all = kUlpNames.filter((name) => name !== '0').map((name) => ({ name, count: ulps[name] ?? 0 }));
  for (const [name, count] of Object.entries(ulps)) if (!kUlpNames.includes(name)) all.push({ name, count });
  const used = all.map((b, i) => (b.count > 0 ? i : -1)).filter((i) => i >= 0);
  const first = used[0];
  const last = used[used.length - 1];
  return first === undefined || last === undefined ? [] : all.slice(first, last + 1);
}

/** "1501ebbf44c0" -> "15 01 eb bf 44 c0". */
export function spacedHex(hex: string): string {
  return hex.replace(/(..)(?=.)/g, '$1 ');
}
