// SPDX-License-Identifier: Apache-2.0
// Numbers for people. Lists use one unit for all their rows, so that columns can be compared at a glance.

export interface Unit {
  readonly name: string;
  readonly size: number;
}

const kTimes: Unit[] = [
  { name: 'ns', size: 1 },
  { name: 'µs', size: 1e3 },
  { name: 'ms', size: 1e6 },
  { name: 's', size: 1e9 },
];
const kNoNumber = '–';
const usable = (value: number | null | undefined): value is number => typeof value === 'number' && Number.isFinite(value);

function pick(units: Unit[], value: number): Unit {
  let best = units[0]!;
  for (const unit of units) if (Math.abs(value) >= unit.size) best = unit;
  return best;
}

/** The unit for a column: that of its largest value. */
export const timeUnit = (largestNs: number): Unit => pick(kTimes, largestNs);

/** `digits` significant digits, never an exponent: "9.836", "12.31", "983.6". */
export function significant(value: number | null | undefined, digits = 4): string {
  if (!usable(value)) return kNoNumber;
  if (value === 0) return '0';
  const whole = Math.floor(Math.log10(Math.abs(value))) + 1;
  return value.toFixed(Math.max(0, Math.min(20, digits - whole)));
}

/** "9.836 ms"; `-` for what is not there. */
export function time(ns: number | null | undefined, digits = 4): string {
  if (!usable(ns)) return kNoNumber;
  const unit = pick(kTimes, ns);
  return `${significant(ns / unit.size, digits)}\u00a0${unit.name}`;
}

/** In a unit that the column's head names. Always the same number of decimals. */
export const timeIn = (ns: number | null | undefined, unit: Unit, decimals = 3): string =>
  usable(ns) ? (ns / unit.size).toFixed(unit.size === 1 ? 0 : decimals) : kNoNumber;

/** "300 KiB". Whole bytes below 1 KiB. */
export function bytes(count: number | null | undefined, digits = 3): string {
  if (!usable(count)) return kNoNumber;
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let value = count;
  let at = 0;
  while (Math.abs(value) >= 1024 && at + 1 < names.length) {
    value /= 1024;
    at += 1;
  }
  return `${at === 0 ? value.toFixed(0) : trimmed(significant(value, digits))}\u00a0${names[at]}`;
}

const trimmed = (text: string) => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);

/** "1,234,567" with thin spaces: "1 234 567". */
export function count(value: number | null | undefined): string {
  if (!usable(value)) return kNoNumber;
  return value.toFixed(0).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
}

/** 0.6431 -> "64.3 %". */
export const percent = (share: number | null | undefined, decimals = 1): string =>
  usable(share) ? `${(share * 100).toFixed(decimals)}\u00a0%` : kNoNumber;

/** Of B's time over A's: "×0.986". */
export const ratio = (value: number | null | undefined, decimals = 3): string => (usable(value) && value > 0 ? `×${value.toFixed(decimals)}` : kNoNumber);

/** Of B's time over A's as a change of the time: "−1.4 %". */
export function change(value: number | null | undefined, decimals = 1): string {
  if (!usable(value) || value <= 0) return kNoNumber;
  const share = (value - 1) * 100;
  const text = Math.abs(share).toFixed(decimals);
  return `${Number(text) === 0 ? '±' : share < 0 ? '−' : '+'}${text}\u00a0%`;
}

export const dim3 = (v: readonly number[] | undefined): string => (v && v.length > 0 ? v.join('×') : kNoNumber);

/** "2026-12-03T10:40:52Z" -> "10:40:52" today, else "2026-12-03 10:40". Local time. */
export function when(at: string | undefined, now = new Date()): string {
  if (!at) return kNoNumber;
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return at;
  const two = (n: number) => String(n).padStart(2, '0');
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (date.toDateString() === now.toDateString()) return `${clock}:${two(date.getSeconds())}`;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock}`;
}

/** 75 s -> "1:15"; below a minute "8.2 s". */
export function seconds(s: number | null | undefined): string {
  if (!usable(s)) return kNoNumber;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : s.toFixed(0)}\u00a0s`;
  const two = (n: number) => String(Math.floor(n)).padStart(2, '0');
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two((s % 3600) / 60)}:${two(s % 60)}`;
}

/** The last part of a path, with the folder before it when asked. */
export const fileName = (path: string, folders = 0): string => path.split('/').slice(-1 - folders).join('/');

/** "1 run", "3 runs". */
export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;

/** snake_case words of the program as words. */
export const words = (name: string): string => name.replaceAll('_', ' ');
