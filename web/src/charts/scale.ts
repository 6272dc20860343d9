// SPDX-License-Identifier: Apache-2.0
// From values to pixels, with ticks that people can read. Not here: drawing.

export interface Scale {
  (value: number): number;
  readonly low: number;
  readonly high: number;
  readonly from: number;
  readonly to: number;
  holds(value: number): boolean;
  ticks(about: number): number[];
}

const kMost = 1e15; // differences of such numbers are still numbers

function bounded(value: number): number {
  return Number.isFinite(value) ? Math.min(kMost, Math.max(-kMost, value)) : 0;
}

function made(
  low: number,
  high: number,
  from: number,
  to: number,
  share: (value: number) => number,
  ticks: (about: number) => number[],
): Scale {
  const map = (value: number): number => {
    const s = share(value);
    return from + Math.min(1, Math.max(0, Number.isFinite(s) ? s : 0)) * (to - from);
  };
  return Object.assign(map, {
    low,
    high,
    from,
    to,
    holds: (value: number) => value >= low && value <= high,
    ticks,
  });
}

/** Values outside are drawn at the edge: `holds` says which these are. */
export function linear(low: number, high: number, from: number, to: number): Scale {
  let a = bounded(low);
  let b = bounded(high);
  if (!(b - a > Math.max(Math.abs(a), Math.abs(b)) * 1e-12)) {
    const half = a === 0 ? 0.5 : Math.abs(a) * 0.5;
    a -= half;
    b += half;
  }
  return made(a, b, from, to, (v) => (v - a) / (b - a), (about) => linearTicks(a, b, about));
}

function linearTicks(low: number, high: number, about: number): number[] {
  const rough = (high - low) / Math.max(1, about);
  const decade = 10 ** Math.floor(Math.log10(rough));
  const share = rough / decade;
  const step = decade * (share > 5 ? 10 : share > 2 ? 5 : share > 1 ? 2 : 1);
  const first = Math.ceil(low / step - 1e-9);
  const at: number[] = [];
  for (let i = 0; i < 12; ++i) {
    const tick = (first + i) * step;
    if (!(tick <= high + step * 1e-9)) break;
    at.push(tick === 0 ? 0 : tick);
  }
  return at;
}

/** Both ends above 0. */
export function logarithmic(low: number, high: number, from: number, to: number): Scale {
  const a = low > 0 && Number.isFinite(low) ? low : 1;
  const b = high > a && Number.isFinite(high) ? high : a * 10;
  const la = Math.log10(a);
  const lb = Math.log10(b);
  return made(a, b, from, to, (v) => (Math.log10(v) - la) / (lb - la), (about) => logTicks(la, lb, about));
}

function logTicks(low: number, high: number, about: number): number[] {
  const decades = high - low;
  const at: number[] = [];
  if (decades < 1) {
    // Less than a decade: 1, 2, 5 of each.
    for (let d = Math.floor(low); d <= Math.ceil(high); ++d)
      for (const m of [1, 2, 5]) {
        const v = m * 10 ** d;
        if (Math.log10(v) >= low - 1e-9 && Math.log10(v) <= high + 1e-9) at.push(v);
      }
    return at;
  }
  const step = Math.max(1, Math.ceil(decades / Math.max(1, about)));
  for (let d = Math.ceil(low - 1e-9); d <= high + 1e-9; d += step) at.push(10 ** d);
  return at;
}

export function tickText(value: number, step: number): string {
  if (!(step > 0)) return String(Number(value.toPrecision(6)));
  const decimals = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
  return value.toFixed(decimals);
}

/** Of a logarithmic axis: 0.01, 1, 1000, 10⁶. */
export function decadeText(value: number): string {
  const e = Math.log10(value);
  if (Math.abs(e) < 4) return String(Number(value.toPrecision(3)));
  const power = Math.round(e);
  const digits = '⁰¹²³⁴⁵⁶⁷⁸⁹';
  const up = String(Math.abs(power)).replace(/\d/g, (d) => digits[Number(d)] ?? d);
  return `10${power < 0 ? '⁻' : ''}${up}`;
}

/** Of times in nanoseconds: what to divide by, and the unit's name. */
export function timeUnit(ns: number): { scale: number; name: string } {
  const size = Math.abs(ns);
  if (size >= 1e9) return { scale: 1e9, name: 's' };
  if (size >= 1e6) return { scale: 1e6, name: 'ms' };
  if (size >= 1e3) return { scale: 1e3, name: 'µs' };
  return { scale: 1, name: 'ns' };
}

/** Coordinates: short, and without surprises for what is no number. */
export function px(value: number): number {
  return Number.isFinite(value) ? Math.round(Math.min(1e6, Math.max(-1e6, value)) * 10) / 10 : 0;
}

/** Many dots as one path: each is a line of no length with round ends. One element for 20,000 samples. */
export function dots(points: Iterable<readonly [number, number]>): string {
  let d = '';
  for (const [x, y] of points) d += `M${px(x)} ${px(y)}h0`;
  return d;
}

export function crosses(points: Iterable<readonly [number, number]>, r: number): string {
  let d = '';
  for (const [x, y] of points)
    d += `M${px(x - r)} ${px(y - r)}L${px(x + r)} ${px(y + r)}M${px(x - r)} ${px(y + r)}L${px(x + r)} ${px(y - r)}`;
  return d;
}

/** Small squares, so that B is told from A without colour. */
export function squares(points: Iterable<readonly [number, number]>, r: number): string {
  let d = '';
  for (const [x, y] of points) d += `M${px(x - r)} ${px(y - r)}h${2 * r}v${2 * r}h${-2 * r}z`;
  return d;
}
