// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { call, CallError, dropToken, hasToken, onRefusal, takeToken } from './client';
import { followJob, resultOf } from './jobs';
import { EventStream, FrameReader, type StreamState } from './stream';
import type { JobRow } from './types';

const json = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } });
const row = (state: JobRow['state'], result?: unknown): JobRow => ({ id: 7, session: 's1', kind: 'run', state, log: '', made_at: '', result });

beforeEach(() => {
  history.replaceState(null, '', '/#t=secret&go=/s/abc/runs');
  takeToken();
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
  dropToken();
});

describe('token', () => {
  it('leaves the address and stays in the tab', () => {
    expect(location.hash).toBe('#/s/abc/runs');
    expect(sessionStorage.getItem('klab.token')).toBe('secret');
    expect(takeToken()).toBe('secret');
  });
  it('goes with each call, and is dropped when it is refused', async () => {
    const fetched = vi.fn(async () => json({ result: { sessions: [], next_actions: [] } }));
    vi.stubGlobal('fetch', fetched);
    await call('session.list', {});
    expect(fetched).toHaveBeenCalledWith('api/call', expect.objectContaining({ headers: expect.objectContaining({ Authorization: 'Bearer secret' }), body: '{"verb":"session.list","arguments":{}}' }));
    const refused = vi.fn();
    const stop = onRefusal(refused);
    vi.stubGlobal('fetch', async () => json({ error: { code: 'not_allowed', what: 'no' } }, 401));
    await expect(call('session.list', {})).rejects.toMatchObject({ code: 'no_token' });
    expect(refused).toHaveBeenCalledOnce();
    expect(hasToken()).toBe(false);
    stop();
  });
});

describe('call', () => {
  it("throws klab's own error with its hint", async () => {
    vi.stubGlobal('fetch', async () => json({ error: { code: 'not_found', what: 'there is no session', hint: 'klab session list' } }));
    const thrown: unknown = await call('session.status', { session: 'x' }).catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(CallError);
    expect(thrown).toMatchObject({ code: 'not_found', what: 'there is no session', hint: 'klab session list', verb: 'session.status', offline: false, cancelled: false });
  });
  it('says when nobody answers', async () => {
    vi.stubGlobal('fetch', async () => {
      throw new TypeError('failed to fetch');
    });
    await expect(call('session.list', {})).rejects.toMatchObject({ code: 'no_connection', offline: true });
  });
  it('says when an answer is cut off', async () => {
    vi.stubGlobal('fetch', async () => new Response('{"result": {"ses'));
    await expect(call('session.list', {})).rejects.toMatchObject({ code: 'no_connection' });
  });
});

describe('frames', () => {
  it('come whole from pieces of any size', () => {
    const text = 'id: 4\nevent: event\ndata: {"a":\ndata: 1}\n\n: comment\nevent: ping\n\nevent: jobs\r\ndata: x\r\n\r\n';
    for (let size = 1; size < text.length; ++size) {
      const reader = new FrameReader();
      const frames = [];
      for (let at = 0; at < text.length; at += size) frames.push(...reader.push(text.slice(at, at + size)));
      expect(frames, `pieces of ${size}`).toEqual([
        { event: 'event', data: '{"a":\n1}', id: '4' },
        { event: 'ping', data: '', id: '' },
        { event: 'jobs', data: 'x', id: '' },
      ]);
    }
  });
});

describe('stream', () => {
  const handlers = () => {
    const states: StreamState[] = [];
    return { states, events: [] as number[], hello: vi.fn(), jobs: vi.fn(), reset: vi.fn(), state: (state: StreamState) => void states.push(state), event: vi.fn() };
  };
  const streamOf = (...frames: string[]) =>
    new Response(new ReadableStream({ start: (control) => { for (const frame of frames) control.enqueue(new TextEncoder().encode(frame)); control.close(); } }));

  it('goes on after the last event that it saw, with longer and longer waits', async () => {
    vi.useFakeTimers();
    const asked: string[] = [];
    const answers = [
      () => streamOf('event: hello\ndata: {"home":"/h","last_event":3}\n\n', 'id: 5\nevent: event\ndata: {"id":5}\n\n'),
      () => { throw new TypeError('refused'); },
      () => { throw new TypeError('refused'); },
      () => streamOf('id: 6\nevent: event\ndata: {"id":6}\n\n'),
    ];
    vi.stubGlobal('fetch', async (path: string) => {
      asked.push(path);
      return (answers.shift() ?? (() => { throw new TypeError('refused'); }))();
    });
    const to = handlers();
    const stream = new EventStream(to);
    await vi.advanceTimersByTimeAsync(10);
    expect(to.states).toEqual(['open', 'lost']);
    await vi.advanceTimersByTimeAsync(500);
    expect(asked).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(900);
    expect(asked).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(100);
    expect(asked).toHaveLength(3);
    stream.retryNow();
    await vi.advanceTimersByTimeAsync(10);
    expect(asked).toEqual(['api/stream?after=-1', 'api/stream?after=5', 'api/stream?after=5', 'api/stream?after=5']);
    expect(to.event.mock.calls.map(([event]) => event.id)).toEqual([5, 6]);
    expect(stream.after).toBe(6);
    stream.close();
  });
  it('ends when the token is refused', async () => {
    vi.stubGlobal('fetch', async () => json({}, 401));
    const to = handlers();
    new EventStream(to);
    await vi.waitFor(() => expect(hasToken()).toBe(false));
    expect(to.states).toEqual([]);
  });
});

describe('jobs', () => {
  it('give the answer of their verb', () => expect(resultOf<'session.run'>(row('done', { run: 3 }))).toEqual({ run: 3 }));
  it('throw what the verb threw', () =>
    expect(() => resultOf(row('failed', { error: { code: 'compile_failed', what: 'a.comp:1: no', hint: 'fix it' } }))).toThrowError(expect.objectContaining({ code: 'compile_failed', hint: 'fix it' })));
  it('are told apart when cancelled or lost', () => {
    expect(() => resultOf(row('cancelled', { error: { code: 'interrupted', what: 'cancelled' } }))).toThrowError(expect.objectContaining({ cancelled: true }));
    expect(() => resultOf(row('lost'))).toThrowError(expect.objectContaining({ code: 'worker_lost' }));
  });
  it('are followed across a lost connection', async () => {
    const answers: (() => Response)[] = [
      () => json({ result: { job: row('running') } }),
      () => { throw new TypeError('refused'); },
      () => json({ result: { job: row('done', { run: 9 }) } }),
    ];
    vi.stubGlobal('fetch', async () => answers.shift()!());
    const changed = vi.fn(async () => undefined);
    await expect(followJob<'session.run'>(7, changed)).resolves.toEqual({ run: 9 });
    expect(changed).toHaveBeenCalledTimes(2);
  });
});
