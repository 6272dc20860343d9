// SPDX-License-Identifier: Apache-2.0
import { expect, it } from 'vitest';
import { nameProblem, nextName, stemOf } from './names';

it('counts up from the name that it begins with', () => {
  expect(nextName('naive', [])).toBe('naive-1');
  expect(nextName('naive-1', ['naive-1'])).toBe('naive-2');
  expect(nextName('naive-7', ['naive-1', 'naive-2', 'naive-7'])).toBe('naive-3');
});
it('gives a name that the server takes', () => {
  for (const from of ['', '../..', 'é'.repeat(200), '-3']) {
    const name = nextName(from, []);
    expect(nameProblem(name), name).toBe('');
    expect(name.length).toBeGreaterThan(2);
  }
});
it('refuses what the server refuses', () => {
  expect(nameProblem('a/b')).not.toBe('');
  expect(nameProblem('..')).not.toBe('');
  expect(nameProblem('baseline')).not.toBe('');
  expect(nameProblem('é'.repeat(65))).toContain('128');
  expect(nameProblem('é'.repeat(64))).toBe('');
});
it('takes the stem of a path', () => {
  expect(stemOf('/a/b.c/matmul_tiled.comp')).toBe('matmul_tiled');
  expect(stemOf('.hidden')).toBe('.hidden');
  expect(stemOf('k')).toBe('k');
});
