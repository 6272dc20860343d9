// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { countMessages, fromAnswer, isOfText, parseMessages, rangeInLine } from './messages';

describe('parseMessages', () => {
  it('reads what a failed GLSL build says', () => {
    expect(parseMessages("/home/someone/p/broken.comp:14: error: 'summ' : undeclared identifier")).toEqual([
      { severity: 'error', file: '/home/someone/p/broken.comp', line: 14, column: 0, text: "'summ' : undeclared identifier" },
    ]);
  });
  it('reads columns, fatal errors and a file without a line', () => {
    const [a, b, c] = parseMessages('k.hip:3:9: fatal error: no such header\nk.hip:4: warning: unused\nk.hip: error: no main');
    expect(a).toMatchObject({ line: 3, column: 9, severity: 'error', text: 'no such header' });
    expect(b).toMatchObject({ line: 4, column: 0, severity: 'warning' });
    expect(c).toMatchObject({ file: 'k.hip', line: 0, text: 'no main' });
  });
  it('reads the form with parentheses', () => {
    expect(parseMessages('/a b/k.cu(14): error: identifier "x" is undefined')[0]).toMatchObject({ file: '/a b/k.cu', line: 14 });
    expect(parseMessages('k.cu(4): warning #177-D: variable "x" was declared')[0]).toMatchObject({ severity: 'warning', line: 4 });
  });
  it('keeps lines that follow a message with it, and text that is no message at all', () => {
    const list = parseMessages('k.cu(14): error: bad\n    x = y;\n        ^\nk.cu(15): error: worse');
    expect(list).toHaveLength(2);
    expect(list[0]?.text).toBe('bad\n    x = y;\n        ^');
    expect(parseMessages('nvcc was killed')).toEqual([{ severity: 'error', file: '', line: 0, column: 0, text: 'nvcc was killed' }]);
  });
  it('does not take a colon in a path or text for a line', () => {
    expect(parseMessages('/a:b/k.comp:7: error: x: y: 3')[0]).toMatchObject({ file: '/a:b/k.comp', line: 7, text: 'x: y: 3' });
  });
});

it('tells the edited text from a header', () => {
  const [own, header] = parseMessages('/h/s/variants/ab/fast-1.comp:3: error: x\n/p/common.glsl:3: error: x');
  expect(isOfText(own!, 'fast-1.comp')).toBe(true);
  expect(isOfText(header!, 'fast-1.comp')).toBe(false);
});

describe('rangeInLine', () => {
  const line = '  for (uint k = 0; k < n; ++k) summ += a[k];';
  const say = (text: string, column = 0) => ({ severity: 'error' as const, file: '', line: 1, column, text });
  it('marks the quoted name, as a whole word', () => {
    const [from, to] = rangeInLine(line, say("'summ' : undeclared identifier"));
    expect(line.slice(from, to)).toBe('summ');
    expect(rangeInLine('ab a', say("'a' : bad"))).toEqual([3, 4]);
  });
  it('prefers the column', () => expect(rangeInLine(line, say("'summ'", 8))).toEqual([7, 11]));
  it('falls back to the text of the line', () => {
    expect(rangeInLine(line, say('syntax error'))).toEqual([2, line.length]);
    expect(rangeInLine('', say('unexpected end'))).toEqual([0, 0]);
  });
  it('survives a name with signs of regular expressions', () => {
    const [from, to] = rangeInLine('x = a[(;', say("'[(' : no"));
    expect([from, to]).toEqual([5, 7]);
  });
});

it('counts in words', () => {
  expect(countMessages(fromAnswer([{ severity: 'warning', text: 'a' }, { severity: 'error' }, { severity: 'error' }]))).toBe('2 errors, 1 warning');
  expect(countMessages([])).toBe('');
});
