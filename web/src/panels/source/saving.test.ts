// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import type { SaveRow, Variant } from '../../api/types';
import { bestVariant, hindranceOf, refusalOf } from './saving';

const variant = (id: string, more: Partial<Variant> = {}): Variant => ({
  id, name: id, language: 'glsl', source_file: '/p/a.comp', source_hash: 'h', options: { include_folders: [], defines: [], optimisation: 'performance', target: 'vulkan1.2', entry_point: 'main', debug_info: false },
  launch: {}, code: '/c', code_hash: 'c', compiler: 'shaderc', target_file: '/p/k.comp', made_at: '2026-01-01T00:00:00Z', ...more,
});
const verdict = (correctness: 'correct' | 'incorrect' | 'not_verified', speed: 'faster' | 'slower' | 'none', ratio?: number): NonNullable<Variant['verdict']> => ({
  id: 1, variant: 'v', dispatch: 0, correctness: correctness as never, speed: speed as never, reason: 'because', at: '', ...(ratio ? { ratio } : {}),
});

describe('hindranceOf', () => {
  it('lets only a variant that was found correct through', () => {
    expect(hindranceOf(variant('a', { verdict: verdict('correct', 'slower', 1.2) }))).toBeUndefined();
    expect(hindranceOf(variant('a'))).toMatchObject({ step: 'compare' });
    expect(hindranceOf(variant('a', { verdict: verdict('incorrect', 'none') }))).toMatchObject({ step: 'source', what: expect.stringContaining('because') });
    expect(hindranceOf(variant('a', { verdict: verdict('not_verified', 'faster', 0.5) }))?.what).toContain('not verified');
  });
  it('says why a launch override or assembly is not saved', () => {
    expect(hindranceOf(variant('a', { source_file: '', verdict: verdict('correct', 'faster', 0.5) }))?.step).toBe('none');
    expect(hindranceOf(variant('a', { language: 'spirv', verdict: verdict('correct', 'faster', 0.5) }))?.what).toContain('spirv');
  });
});

describe('refusalOf', () => {
  const save = (id: string, of: string, undone = false): SaveRow => ({ id, variant: of, file: '/p/k.comp', backup: '', before_hash: '', after_hash: '', approved_by: 'page', at: `2026-01-0${id}T00:00:00Z`, undone });
  it('tells a save of another variant from a change by somebody else', () => {
    expect(refusalOf('source_changed', variant('b'), '/p/k.comp', [save('1', 'a')])?.step).toBe('undo');
    expect(refusalOf('source_changed', variant('b'), '/p/k.comp', [save('1', 'a', true)])?.step).toBe('source');
    expect(refusalOf('source_changed', variant('b'), '/p/k.comp', [save('1', 'a'), save('2', 'b')])?.step).toBe('source');
    expect(refusalOf('source_changed', variant('b'), '/p/other.comp', [save('1', 'a')])?.step).toBe('source');
  });
  it('has nothing to add to what it does not know', () => expect(refusalOf('disk_full', variant('b'), '', [])).toBeUndefined());
});

it('offers the fastest correct variant first', () => {
  const a = variant('a', { verdict: verdict('correct', 'faster', 0.9) });
  const b = variant('b', { verdict: verdict('correct', 'faster', 0.6) });
  const wrong = variant('w', { verdict: verdict('incorrect', 'none') });
  const even = variant('e', { verdict: verdict('correct', 'none') });
  expect(bestVariant([a, b, wrong])?.id).toBe('b');
  expect(bestVariant([even, wrong])?.id).toBe('e');
  expect(bestVariant([wrong])?.id).toBe('w');
  expect(bestVariant([])).toBeUndefined();
});
