// SPDX-License-Identifier: Apache-2.0
import { expect, it } from 'vitest';
import sample from '../../../tests/samples/view_events.json';
import type { EventRow } from '../../api/types';
import { eventWords, whoOf } from './words';

const events = sample.result.items as EventRow[];
const names = new Map([['vmdozxl1', 'same'], ['vqupqft9', 'wrong']]);
const said = (kind: string, nth = 0) => eventWords(events.filter((one) => one.kind === kind)[nth]!, names);

it('events of a real session read as what happened', () => {
  expect(said('open')).toMatchObject({ what: 'opened' });
  expect(said('trace')).toMatchObject({ what: 'traced', detail: '2 dispatches' });
  expect(said('trace', 1)).toMatchObject({ what: 'previewed a capture', detail: '300\u00a0KiB' });
  expect(said('capture')).toMatchObject({ what: 'captured', detail: 'matmul_naive, 300\u00a0KiB, proof: equal', tone: 'good' });
  expect(said('build', 2)).toMatchObject({ what: 'build failed', tone: 'bad', detail: expect.stringContaining("'summ' : undeclared") });
  expect(said('run', 2)).toMatchObject({ detail: 'wrong, run 3, median 14.14\u00a0ms' });
  expect(said('compare')).toMatchObject({ detail: 'same, correct, inconclusive, ×0.986', tone: 'plain' });
  expect(said('compare', 1)).toMatchObject({ detail: 'wrong, incorrect', tone: 'bad' });
  expect(said('begin')).toMatchObject({ what: 'trace begins', tone: 'dim' });
});
it('none is without words', () => {
  for (const event of events) expect(eventWords(event, names).what).not.toBe('');
  expect(eventWords({ id: 1, session: 's', kind: 'new_kind', at: '', detail: {} }, names).what).toBe('new kind');
});
it('says who', () => expect([whoOf('mcp'), whoOf('cli'), whoOf('page'), whoOf(undefined), whoOf('robot')]).toEqual(['agent', 'cli', 'page', '', 'robot']));
