// SPDX-License-Identifier: Apache-2.0
// What happens in the hub, as it happens: /api/stream, read with fetch because it needs a header.
import { CallError, request } from './client';
import type { About, ActiveJob, EventRow } from './types';

export type StreamState = 'connecting' | 'open' | 'lost';

export interface StreamHandlers {
  hello(about: About): void;
  event(row: EventRow): void;
  jobs(jobs: ActiveJob[]): void;
  /** Too much was missed: whatever is shown has to be read anew. */
  reset(): void;
  state(state: StreamState, retryAt: number): void;
}

export interface Frame {
  event: string;
  data: string;
  id: string;
}

/** Takes a stream of text apart into the frames of server-sent events. */
export class FrameReader {
  private rest = '';

  push(text: string): Frame[] {
    this.rest += text.replaceAll('\r', ''); // a pair may be split between two pieces
    const frames: Frame[] = [];
    for (;;) {
      const end = this.rest.indexOf('\n\n');
      if (end < 0) return frames;
      const frame: Frame = { event: 'message', data: '', id: '' };
      for (const line of this.rest.slice(0, end).split('\n')) {
        const colon = line.indexOf(':');
        if (colon === 0) continue;
        const name = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
        if (name === 'event') frame.event = value;
        else if (name === 'data') frame.data += (frame.data ? '\n' : '') + value;
        else if (name === 'id') frame.id = value;
      }
      this.rest = this.rest.slice(end + 2);
      frames.push(frame);
    }
  }
}

const kFirstWait = 500;
const kLongestWait = 5000;
/** The server says something every 10 s: after this much silence the connection is taken for dead. */
const kSilence = 25_000;

/** Keeps a stream open until `close()`. `after`: the newest event that is known; -1: only what comes. */
export class EventStream {
  private stopped = false;
  private abort: AbortController | undefined;
  private wake: (() => void) | undefined;
  private silence: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly handlers: StreamHandlers,
    public after = -1,
  ) {
    void this.run();
  }

  close(): void {
    this.stopped = true;
    this.abort?.abort();
    this.wake?.();
  }

  /** Does not wait for the next try. */
  retryNow(): void {
    this.wake?.();
  }

  private async run(): Promise<void> {
    let wait = kFirstWait;
    while (!this.stopped) {
      try {
        await this.read(() => (wait = kFirstWait));
      } catch (thrown) {
        if (thrown instanceof CallError && thrown.code === 'no_token') return;
      }
      if (this.stopped) return;
      this.handlers.state('lost', Date.now() + wait);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, wait);
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.wake = undefined;
      wait = Math.min(kLongestWait, wait * 2);
    }
  }

  private async read(opened: () => void): Promise<void> {
    const abort = new AbortController();
    this.abort = abort;
    try {
      this.heard();
      const response = await request(`api/stream?after=${this.after}`, { signal: abort.signal });
      if (!response.ok || !response.body) throw new CallError('no_connection', `the stream ended with HTTP ${response.status}`);
      opened();
      this.handlers.state('open', 0);
      const frames = new FrameReader();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        this.heard();
        for (const frame of frames.push(value)) this.handle(frame);
      }
    } finally {
      clearTimeout(this.silence);
      abort.abort();
    }
  }

  private heard(): void {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.abort?.abort(), kSilence);
  }

  private handle(frame: Frame): void {
    const id = Number(frame.id);
    if (frame.id && Number.isFinite(id)) this.after = Math.max(this.after, id);
    if (frame.event === 'ping') return;
    let data: unknown;
    try {
      data = JSON.parse(frame.data);
    } catch {
      return; // nothing that a later frame could not say
    }
    if (frame.event === 'hello') {
      const about = data as About;
      if (this.after < 0 && about.last_event !== undefined) this.after = about.last_event;
      this.handlers.hello(about);
    } else if (frame.event === 'event') this.handlers.event(data as EventRow);
    else if (frame.event === 'jobs') this.handlers.jobs((data as { jobs: ActiveJob[] }).jobs);
    else if (frame.event === 'reset') this.handlers.reset();
  }
}
