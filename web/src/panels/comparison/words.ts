// SPDX-License-Identifier: Apache-2.0
// A verdict in words: the closed sets of docs/measuring.md and docs/validation.md, and the sentences of the HTML report
// (src/ops/report_html.cpp). Nothing is concluded here: interval, floor and verdict are the answer's.

export const kCorrectness = ['correct', 'incorrect', 'not_verified', 'failed'] as const;
export const kSpeeds = [
  'identical',
  'faster',
  'slower',
  'equivalent',
  'inconclusive',
  'unstable',
  'clock_dependent',
] as const;

export type Kind = 'good' | 'bad' | 'plain' | 'warn';

export interface Interval {
  ratio: number;
  low: number;
  high: number;
  alpha: number;
  from: string;
}

export interface Headline {
  /** The verdict's own word; of a variant that is not correct, its correctness. */
  word: string;
  sign: string;
  kind: Kind;
  words: string;
  more: string;
}

/** With an interval: without one, both ends are 0. */
export const hasInterval = (i: Interval): boolean => i.high > 0;

export function bounded(i: Interval | null | undefined): i is Interval {
  return i !== null && i !== undefined && hasInterval(i);
}

/** "5.20 %", as reports write it. */
export function percent(share: number): string {
  const p = 100 * share;
  const size = Math.abs(p);
  return `${p.toFixed(size < 0.095 ? 3 : size < 99.5 ? 2 : 0)}\u00a0%`;
}

export function change(ratio: number): string {
  return percent(Math.abs(1 - ratio)) + (ratio < 1 ? ' less time' : ' more time');
}

export function signOf(word: string): { sign: string; kind: Kind } {
  switch (word) {
    case 'correct':
      return { sign: '✓', kind: 'good' };
    case 'incorrect':
    case 'failed':
      return { sign: '✕', kind: 'bad' };
    case 'faster':
      return { sign: '▼', kind: 'good' };
    case 'slower':
      return { sign: '▲', kind: 'bad' };
    case 'identical':
    case 'equivalent':
      return { sign: '=', kind: 'plain' };
    case 'unstable':
    case 'clock_dependent':
      return { sign: '!', kind: 'warn' };
    case 'not_verified':
    case 'inconclusive':
      return { sign: '?', kind: 'warn' };
    default:
      return { sign: '·', kind: 'plain' };
  }
}

/** Whether times of it may be shown: never of what computes something else, or did not run. */
export function timesShown(correctness: string | undefined): boolean {
  return correctness !== 'incorrect' && correctness !== 'failed';
}

export interface Judged {
  a: string;
  b: string;
  correctness: string;
  speed: string;
  conclusion?: { interval: Interval; reason: string } | undefined;
  delta?: number | undefined;
  interrupted?: boolean | undefined;
}

export function headline(j: Judged): Headline {
  const { a, b } = j;
  const of = (word: string, words: string, more: string): Headline => ({ word, ...signOf(word), words, more });
  if (j.correctness !== 'correct') {
    if (j.correctness === 'incorrect')
      return of('incorrect', `${b} is incorrect`, 'It does not compute what the captured kernel computed, so nothing is said of its speed.');
    if (j.correctness === 'failed')
      return of('failed', `${b} failed`, 'It did not run to its end, so nothing is said of its speed.');
    return of('not_verified', `${b} is not verified`, 'It could not be shown to compute the same, so nothing is said of its speed.');
  }
  if (j.speed === 'identical')
    return of('identical', `${b} is identical to ${a}`, 'The machine code and the launch are equal, so it was not timed.');
  const c = j.conclusion;
  if (c === undefined || j.speed === 'none' || j.speed === '')
    return of('correct', `${b} is correct`, 'Its speed was not compared.');
  const reason = c.reason === '' ? '' : `${c.reason}.`;
  const estimate = `Best estimate: ${change(c.interval.ratio)}.`;
  switch (j.speed) {
    case 'faster':
      return of('faster', `${b} is faster: at least ${change(c.interval.high)}`, estimate);
    case 'slower':
      return of('slower', `${b} is slower: at least ${change(c.interval.low)}`, estimate);
    case 'equivalent':
      return of('equivalent', `${a} and ${b} take the same time, within ${percent(j.delta ?? 0)}`, 'A difference that small does not matter here.');
    case 'unstable':
      return of('unstable', 'No claim: the device was disturbed too often', reason);
    case 'clock_dependent':
      return of('clock_dependent', 'No claim: the clock was not the same for both', reason);
    default:
      if (j.interrupted) return of('inconclusive', 'No claim: the comparison was interrupted', reason);
      return of('inconclusive', `Not shown either way: ${b} may be faster or slower`, reason);
  }
}

/** The ratio with what it is worth: never without its interval. */
export function ratioText(i: Interval, floor: number | undefined): string {
  const known = floor === undefined ? '' : `; floor ${percent(floor)}`;
  if (!hasInterval(i)) return `too few placements for an interval${known}`;
  return `${i.ratio.toFixed(4)} (${i.low.toFixed(4)} to ${i.high.toFixed(4)}, ${Number((100 * (1 - i.alpha)).toPrecision(4))}\u00a0% interval)${known}`;
}
