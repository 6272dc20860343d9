// SPDX-License-Identifier: Apache-2.0
// The window of time that the timeline shows. Pure.

export interface Span {
  from: number;
  to: number;
}

const kSmallest = 100; // ns

/** Inside `whole`, never smaller than kSmallest unless the whole is. */
export function clampWindow(window: Span, whole: Span): Span {
  const size = Math.min(Math.max(window.to - window.from, Math.min(kSmallest, whole.to - whole.from)), whole.to - whole.from);
  const from = Math.min(Math.max(window.from, whole.from), whole.to - size);
  return { from, to: from + size };
}

/** `factor` below 1 shows less; the time at `anchor` (0 to 1 of the window) stays where it is. */
export function zoom(window: Span, whole: Span, factor: number, anchor = 0.5): Span {
  const size = window.to - window.from;
  const fixed = window.from + size * anchor;
  return clampWindow({ from: fixed - size * factor * anchor, to: fixed + size * factor * (1 - anchor) }, whole);
}

/** By a share of the window. */
export function pan(window: Span, whole: Span, share: number): Span {
  const by = (window.to - window.from) * share;
  return clampWindow({ from: window.from + by, to: window.to + by }, whole);
}

/** Round times for an axis with about `count` marks. */
export function ticks(window: Span, count: number): number[] {
  const size = window.to - window.from;
  if (!(size > 0) || count < 1) return [];
  const rough = size / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((one) => one * power >= rough) ?? 10);
  const list: number[] = [];
  for (let t = Math.ceil(window.from / step) * step; t <= window.to; t += step) list.push(t);
  return list;
}
