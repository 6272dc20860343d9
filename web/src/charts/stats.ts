// SPDX-License-Identifier: Apache-2.0
// Order statistics and block ratios for drawing. What is claimed is never computed here: verdicts, intervals and
// floors are those of the answers.

export interface Summary {
  count: number;
  min: number;
  q1: number;
  median: number;
  q3: number;
  max: number;
}

/** By linear interpolation (type 7), as measure/summary.h. `sorted` is ascending. */
export function quantile(sorted: readonly number[], q: number): number {
  if (sorted.length === 0) return Number.NaN;
  const at = q * (sorted.length - 1);
  const below = Math.floor(at);
  const a = sorted[below] ?? Number.NaN;
  const b = sorted[Math.min(below + 1, sorted.length - 1)] ?? a;
  return a + (b - a) * (at - below);
}

export function ascending(values: readonly number[]): number[] {
  return values.filter((v) => Number.isFinite(v)).sort((a, b) => a - b);
}

export function summarise(values: readonly number[]): Summary {
  const sorted = ascending(values);
  return {
    count: sorted.length,
    min: quantile(sorted, 0),
    q1: quantile(sorted, 0.25),
    median: quantile(sorted, 0.5),
    q3: quantile(sorted, 0.75),
    max: quantile(sorted, 1),
  };
}

export interface Extent {
  low: number;
  high: number;
}

export function extent(values: Iterable<number>): Extent | null {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const v of values) {
    if (!Number.isFinite(v)) continue;
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return high >= low ? { low, high } : null;
}

/** The bulk of the values: a few that lie far out do not squeeze the rest. Charts say how many are outside. */
export function bulk(values: readonly number[], share: number): Extent | null {
  const sorted = ascending(values);
  return sorted.length === 0 ? null : { low: quantile(sorted, share), high: quantile(sorted, 1 - share) };
}

export function join(...all: (Extent | null)[]): Extent | null {
  return extent(all.flatMap((e) => (e === null ? [] : [e.low, e.high])));
}

export function padded(e: Extent, share: number): Extent {
  const more = (e.high - e.low) * share;
  return { low: e.low - more, high: e.high + more };
}

/** Steps of the empirical distribution: share of values up to each, at most `most` steps, the extremes kept. */
export function ecdf(values: readonly number[], most = 1000): [number, number][] {
  const sorted = ascending(values);
  const n = sorted.length;
  if (n === 0) return [];
  const steps: [number, number][] = [];
  const stride = Math.max(1, Math.ceil(n / most));
  for (let i = 0; i < n; i += stride) steps.push([sorted[i] ?? 0, (i + 1) / n]);
  steps.push([sorted[n - 1] ?? 0, 1]);
  return steps;
}

export interface LetterLike {
  time_ns: number;
}
export interface BlockLike {
  a: readonly LetterLike[];
  b: readonly LetterLike[];
  placement: number;
  dropped?: string | undefined;
}

/** B's time over A's of one block: exp of half of ln B1 + ln B2 - ln A1 - ln A2. */
export function blockRatio(block: BlockLike): number {
  const log = (l: LetterLike | undefined): number => Math.log(l?.time_ns ?? Number.NaN);
  return Math.exp((log(block.b[0]) + log(block.b[1]) - log(block.a[0]) - log(block.a[1])) / 2);
}

export interface PlacementMean {
  placement: number;
  blocks: number;
  ratio: number;
}

/** Of the blocks that count, by placement; at most the first `placements`. */
export function placementMeans(blocks: readonly BlockLike[], placements = Number.POSITIVE_INFINITY): PlacementMean[] {
  const sums = new Map<number, { n: number; sum: number }>();
  for (const b of blocks) {
    if (b.dropped || b.placement >= placements) continue;
    const log = Math.log(blockRatio(b));
    if (!Number.isFinite(log)) continue;
    const s = sums.get(b.placement) ?? { n: 0, sum: 0 };
    s.n += 1;
    s.sum += log;
    sums.set(b.placement, s);
  }
  return [...sums].map(([placement, s]) => ({ placement, blocks: s.n, ratio: Math.exp(s.sum / s.n) }));
}

/** Consecutive blocks of one placement. */
export function placementRuns(blocks: readonly { placement: number }[]): { placement: number; from: number; to: number }[] {
  const runs: { placement: number; from: number; to: number }[] = [];
  blocks.forEach((b, i) => {
    const last = runs[runs.length - 1];
    if (last && last.placement === b.placement) last.to = i;
    else runs.push({ placement: b.placement, from: i, to: i });
  });
  return runs;
}
