// SPDX-License-Identifier: Apache-2.0
// Two texts side by side, line for line: equal lines face each other, and where one has lines that the other has not,
// the other gets empty ones.
import { diff } from '@codemirror/merge';

export type LineState = 'same' | 'changed' | 'only' | 'filler';

export interface Side {
  text: string;
  /** Of each line of `text`. */
  states: LineState[];
  /** Line number in the text that was given, from 1; 0: a filler. */
  numbers: number[];
}

export interface Aligned {
  a: Side;
  b: Side;
  /** Index (from 0) of the first line of each stretch that differs. */
  stretches: number[];
  changed: number;
  onlyA: number;
  onlyB: number;
}

/**
 * What two lines of a disassembly are compared by: without addresses, encodings and comments; `ids` also without the
 * numbers of registers, SSA ids and labels, which a single added instruction shifts.
 */
export function lineKey(line: string, ids: boolean): string {
  let key = line.includes('/*') ? line.replace(/\/\*.*?\*\//g, ' ') : line;
  const end = key.search(/;|\/\//);
  if (end >= 0) {
    if (key.slice(0, end).trim() === '' && key[end] === ';') return key.replace(/\bBound: \d+/, 'Bound: #').trim(); // SPIR-V's header
    key = key.slice(0, end);
  }
  key = key.replace(/\s+/g, ' ').trim();
  if (!ids) return key;
  // Which of these a line can have is seen cheaply; there may be 50,000 of them.
  if (key.includes('%'))
    key = key.replace(/%(\w*?_)?\d+\b(?!\w)/g, (whole, stem?: string) => (stem === undefined ? '%#' : /struct_$/.test(stem) ? `%${stem}#` : whole));
  if (key.includes('[')) key = key.replace(/\b([vsa])\[\d+:\d+\]/g, '$1[#]');
  if (key.includes('L_x_') || key.includes('BB')) key = key.replace(/(\.L_x_|\$L__BB\d+_|\.?L?BB\d+_)\d+/g, '$1#');
  return key.replace(/(?<![.\w$])(%?(?:U?R|U?P|B|SR|[vsa]|rd|rs|fd|f|r|p|hh|h))\d+\b/g, '$1#');
}

export function alignLines(before: string, after: string, key: (line: string) => string): Aligned {
  const a = linesOf(before);
  const b = linesOf(after);
  const codes = new Map<string, number>();
  const coded = (lines: string[]) => {
    let out = '';
    for (const line of lines) {
      const k = key(line);
      let code = codes.get(k);
      if (code === undefined) codes.set(k, (code = codes.size));
      out += String.fromCharCode(codeUnit(code));
    }
    return out;
  };
  const changes = changesOf(coded(a), coded(b));

  const out: Aligned = { a: side(), b: side(), stretches: [], changed: 0, onlyA: 0, onlyB: 0 };
  const linesA: string[] = [];
  const linesB: string[] = [];
  const push = (i: number | undefined, j: number | undefined, same: boolean) => {
    linesA.push(i === undefined ? '' : (a[i] ?? ''));
    linesB.push(j === undefined ? '' : (b[j] ?? ''));
    out.a.numbers.push(i === undefined ? 0 : i + 1);
    out.b.numbers.push(j === undefined ? 0 : j + 1);
    out.a.states.push(same ? 'same' : i === undefined ? 'filler' : j === undefined ? 'only' : 'changed');
    out.b.states.push(same ? 'same' : j === undefined ? 'filler' : i === undefined ? 'only' : 'changed');
  };
  let atA = 0;
  let atB = 0;
  for (const c of [...changes, { fromA: a.length, toA: a.length, fromB: b.length, toB: b.length }]) {
    while (atA < c.fromA) push(atA++, atB++, true);
    if (c.toA > c.fromA || c.toB > c.fromB) out.stretches.push(linesA.length);
    while (atA < c.toA || atB < c.toB) {
      const i = atA < c.toA ? atA++ : undefined;
      const j = atB < c.toB ? atB++ : undefined;
      if (i === undefined) ++out.onlyB;
      else if (j === undefined) ++out.onlyA;
      else ++out.changed;
      push(i, j, false);
    }
  }
  out.a.text = linesA.join('\n');
  out.b.text = linesB.join('\n');
  return out;
}

interface Span {
  fromA: number;
  toA: number;
  fromB: number;
  toB: number;
}

const kSmall = 1500;

// Lines that are there once on both sides hold long texts in place ("patience" diff); what lies between two of them is
// short, and compared exactly. Without them a diff of 26,000 lines gives up where a third of the lines differ.
function changesOf(a: string, b: string): Span[] {
  const spans: Span[] = [];
  const between = (fromA: number, toA: number, fromB: number, toB: number) => {
    for (const c of diff(a.slice(fromA, toA), b.slice(fromB, toB), { scanLimit: 4000, timeout: 200 }))
      spans.push({ fromA: fromA + c.fromA, toA: fromA + c.toA, fromB: fromB + c.fromB, toB: fromB + c.toB });
  };
  let atA = 0;
  let atB = 0;
  if (Math.max(a.length, b.length) > kSmall)
    for (const [i, j] of anchors(a, b)) {
      if (i > atA || j > atB) between(atA, i, atB, j);
      atA = i + 1;
      atB = j + 1;
    }
  between(atA, a.length, atB, b.length);
  return spans;
}

/** The longest ascending run of pairs of units that are unique on both sides. */
function anchors(a: string, b: string): [number, number][] {
  const once = (text: string) => {
    const at = new Map<string, number>();
    for (let i = 0; i < text.length; ++i) at.set(text[i]!, at.has(text[i]!) ? -1 : i);
    return at;
  };
  const inB = once(b);
  const pairs: [number, number][] = [];
  for (const [unit, i] of once(a)) {
    const j = i < 0 ? undefined : inB.get(unit);
    if (j !== undefined && j >= 0) pairs.push([i, j]);
  }
  const tails: number[] = []; // index of the pair that ends the best run of each length
  const before: number[] = [];
  pairs.forEach(([, j], k) => {
    let low = 0;
    let high = tails.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (pairs[tails[mid]!]![1] < j) low = mid + 1;
      else high = mid;
    }
    before[k] = low > 0 ? tails[low - 1]! : -1;
    tails[low] = k;
  });
  const run: [number, number][] = [];
  for (let k = tails[tails.length - 1] ?? -1; k >= 0; k = before[k]!) run.push(pairs[k]!);
  return run.reverse();
}

/** The part of two facing lines that differs, as [from, to) of each: without their common beginning and end. */
export function changedPart(a: string, b: string): { a: [number, number]; b: [number, number] } {
  let start = 0;
  const most = Math.min(a.length, b.length);
  while (start < most && a[start] === b[start]) ++start;
  let end = 0;
  while (end < most - start && a[a.length - 1 - end] === b[b.length - 1 - end]) ++end;
  return { a: [start, a.length - end], b: [start, b.length - end] };
}

function side(): Side {
  return { text: '', states: [], numbers: [] };
}

function linesOf(text: string): string[] {
  const lines = text.split('\n');
  if (lines[lines.length - 1] === '') lines.pop();
  return lines;
}

// One code unit for each distinct line, so that the diff of texts is a diff of lines; surrogates are passed over, and
// beyond 60,000 distinct lines some share a unit, which costs exactness there and nothing else.
function codeUnit(n: number): number {
  const m = n % 60000;
  return m < 0xd7ff ? m + 1 : m + 1 + 0x800;
}
