// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { originsOf, treeOf, verdictWords } from './variants';

const events = [
  { kind: 'begin', at: '', detail: { job: 5, kind: 'build', request: { session: 's', source: '/p/a.comp', defines: ['TILE=16'] } } },
  { kind: 'build', at: '', detail: { by: 'cli', job: 5, name: 'a', state: 'done', variant: 'v1' } },
  { kind: 'begin', at: '', detail: { job: 6, kind: 'build', request: {} } },
  { kind: 'build', at: '', detail: { by: 'page', job: 6, state: 'failed', error: { code: 'compile_failed' } } },
  { kind: 'begin', at: '', detail: { job: 7, kind: 'build', request: { defines: ['TILE=32'] } } },
  { kind: 'build', at: '', detail: { by: 'mcp', job: 7, variant: 'v3' } },
  { kind: 'begin', at: '', detail: { job: 8, kind: 'build', request: {} } },
  { kind: 'build', at: '', detail: { by: 'mcp', job: 8, variant: 'v1' } },
];

it('knows who built a variant first, and with what', () => {
  const origins = originsOf(events, 'vulkan');
  expect(origins.get('v1')).toEqual({ by: 'cli', job: 5, form: { defines: 'TILE=16' } });
  expect(origins.get('v3')).toMatchObject({ by: 'mcp', job: 7 });
  expect([...origins.keys()]).toEqual(['v1', 'v3']);
});

it('hangs other options of one text below the first', () => {
  const nodes = treeOf(
    [{ id: 'v1', name: 'a', source_hash: 'x' }, { id: 'v2', name: 'b', source_hash: 'y' }, { id: 'v3', name: 'a-2', source_hash: 'x' }, { id: 'v4', name: 'launch', source_hash: '' }, { id: 'v5', name: 'launch-2', source_hash: '' }],
    originsOf(events, 'vulkan'), 'vulkan',
  );
  expect(nodes.map((n) => [n.variant.id, n.depth])).toEqual([['v1', 0], ['v3', 1], ['v2', 0], ['v4', 0], ['v5', 0]]);
  expect(nodes[1]?.words).toBe('TILE=32');
});

describe('verdictWords', () => {
  it('never says a speed of a wrong variant', () => {
    expect(verdictWords({ correctness: 'incorrect', speed: 'faster', ratio: 2 })).toMatchObject({ text: 'incorrect', tone: 'bad' });
    expect(verdictWords({ correctness: 'not_verified', speed: 'faster', ratio: 2 }).text).toBe('not verified');
  });
  it('says what was measured of a right one', () => {
    expect(verdictWords({ correctness: 'correct', speed: 'faster', ratio: 0.5 }).text).toBe('faster (time ×0.500)');
    expect(verdictWords({ correctness: 'correct', speed: 'clock_dependent' }).text).toBe('correct, clock dependent');
    expect(verdictWords({ correctness: 'correct', speed: 'none' }).text).toBe('correct, speed not measured');
    expect(verdictWords(undefined).text).toBe('not compared');
  });
});
