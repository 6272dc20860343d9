// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import sample from '../../tests/samples/view_summary.json';
import { takeToken } from '../api/client';
import { hub } from './hub.svelte';
import { parsePlace, placeHash, route } from './route.svelte';
import { SessionStore } from './session.svelte';

describe('place', () => {
  it('survives the address', () => {
    const place = { session: 's801hu1d', panel: 'runs' as const, query: { run: '3', text: 'a&b=c' } };
    expect(parsePlace(placeHash(place))).toEqual(place);
  });
  it.each(['', '#', '#/', '#/x/y', '#/s/', '#t=abc'])('"%s" is the list of sessions', (hash) => expect(parsePlace(hash).session).toBe(''));
  it('an unknown panel is the first one', () => expect(parsePlace('#/s/a/nothing').panel).toBe('dispatches'));
  it('remembers what a panel had selected', () => {
    route.go('a', 'runs', { run: '3' });
    route.go('a', 'source');
    route.go('a', 'runs');
    expect(route.get('run')).toBe('3');
    route.set({ run: '' });
    expect(route.place.query).toEqual({});
    route.write();
    expect(location.hash).toBe('#/s/a/runs');
  });
});

describe('session', () => {
  let push: (text: string) => void;
  let asked: string[];
  const id = sample.result.session.id;
  const settle = () => vi.advanceTimersByTimeAsync(200);
  const event = (number: number, kind: string, detail: object) => push(`id: ${number}\nevent: event\ndata: ${JSON.stringify({ id: number, session: id, kind, at: '', detail })}\n\n`);

  beforeEach(async () => {
    vi.useFakeTimers();
    history.replaceState(null, '', '/#t=secret');
    takeToken();
    asked = [];
    vi.stubGlobal('fetch', async (path: string, init: RequestInit) => {
      if (path.startsWith('api/stream'))
        return new Response(new ReadableStream({ start: (control) => void (push = (text) => control.enqueue(new TextEncoder().encode(text))) }));
      const { verb, arguments: args } = JSON.parse(String(init.body)) as { verb: string; arguments: Record<string, unknown> };
      asked.push(`${verb} ${String(args.view ?? args.verb ?? args.job ?? '')}`);
      const result = verb === 'job.start' ? { job: 40 } : verb === 'job.wait' ? { job: { id: 40, session: id, kind: 'run', state: asked.filter((one) => one.startsWith('job.wait')).length > 1 ? 'done' : 'running', log: '', made_at: '', result: { run: 4 } } } : sample.result;
      return new Response(JSON.stringify({ result }));
    });
    hub.start();
    await settle();
    push('event: hello\ndata: {"version":"1","home":"/h","allowed":{"roots":[],"programs":[],"save_roots":[],"read_only":false}}\n\n');
    await settle();
  });
  afterEach(() => {
    hub.stop();
    vi.unstubAllGlobals();
    vi.useRealTimers();
  });

  it('has its row, what is next, and hears what others do, in one go', async () => {
    const session = new SessionStore(id);
    await settle();
    expect([session.row?.state, session.summary?.counts?.runs, session.actions.length]).toEqual(['idle', 3, 6]);
    const before = { runs: session.changed('runs'), saves: session.changed('saves') };
    asked = [];
    event(30, 'begin', { job: 41, kind: 'run' });
    event(31, 'run', { by: 'mcp', job: 41, run: 4, state: 'done' });
    event(32, 'run', { by: 'mcp', job: 42, run: 5, state: 'done' });
    await settle();
    expect(session.changed('runs')).toBe(before.runs + 1);
    expect(session.changed('saves')).toBe(before.saves);
    expect(asked).toEqual(['session.status summary']);
    expect(session.events.map((one) => one.id)).toEqual([30, 31, 32]);
    session.stop();
    event(33, 'run', { job: 43 });
    await settle();
    expect(session.events).toHaveLength(3);
  });
  it('follows a job of its own to its answer', async () => {
    const session = new SessionStore(id);
    await settle();
    const job = session.start('session.run', { iterations: 5 });
    await settle();
    push(`event: jobs\ndata: ${JSON.stringify({ jobs: [{ job: 40, verb: 'session.run', session: id, progress: { line: 'timing', done: 2, total: 5 } }] })}\n\n`);
    await settle();
    expect(job.progress).toMatchObject({ line: 'timing', done: 2 });
    expect(session.job?.job).toBe(40);
    push('event: jobs\ndata: {"jobs":[]}\n\n');
    await expect(job.answer).resolves.toEqual({ run: 4 });
    expect([job.ended, session.job]).toEqual([true, undefined]);
    session.stop();
  });
});
