// SPDX-License-Identifier: Apache-2.0
import { expect, it } from 'vitest';
import { commandText, parseBytes, proofWords } from './words';

it.each([
  ['4 GiB', 2 ** 32], ['300M', 300 * 2 ** 20], ['1.5k', 1536], ['77', 77], ['1e3', 1000], ['2tb', 2 ** 41], ['', undefined], ['much', undefined], ['-1', undefined], ['0', undefined], ['4 GiB more', undefined],
])('"%s" is %s bytes', (text, wanted) => expect(parseBytes(text)).toBe(wanted));

it('a capture that differs says what to do', () => {
  expect(proofWords({ state: 'differs' })).toMatchObject({ tone: 'bad', means: expect.stringContaining('scope "all"') });
  expect(proofWords({ state: 'equal' }).tone).toBe('good');
  expect(proofWords({ state: 'not_run' }).tone).toBe('dim');
});

it('commands are quoted as a shell needs it', () => expect(commandText(['./a b', '--n=1', "it's"])).toBe("'./a b' --n=1 'it'\\''s'"));
