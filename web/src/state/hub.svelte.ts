// SPDX-License-Identifier: Apache-2.0
// The connection to the hub: who we are, what runs, and one place that hands events to those who show them.
import { call, hasToken, onRefusal, takeToken } from '../api/client';
import { cancelJob } from '../api/jobs';
import { EventStream, type StreamState } from '../api/stream';
import type { About, ActiveJob, EventRow } from '../api/types';

type Listener = (row: EventRow) => void;

class Hub {
  connection = $state<StreamState | 'no_token'>('connecting');
  /** When the next try is, in ms since 1970. */
  retryAt = $state(0);
  about = $state.raw<About>();
  /** Jobs that wait or run, of all sessions. */
  jobs = $state.raw<ActiveJob[]>([]);
  /** Counts events of sessions that came or went, for the list of them. */
  sessionsChanged = $state(0);
  /** Counts times that everything has to be read anew. */
  resets = $state(0);

  private stream: EventStream | undefined;
  private listeners = new Map<string, Set<Listener>>();
  private waiting = new Set<{ job: number; done: () => void }>();

  /** Opens the stream, or says that a token is needed. May be called again when a token has come. */
  start(): void {
    takeToken();
    this.stream?.close();
    if (!hasToken()) {
      this.connection = 'no_token';
      return;
    }
    this.connection = 'connecting';
    this.stream = new EventStream({
      hello: (about) => {
        // After a restart of the server its events may be counted anew: what is shown cannot be trusted then.
        if (this.about && about.home !== this.about.home) this.reset();
        this.about = about;
      },
      event: (row) => this.hand(row),
      jobs: (jobs) => this.setJobs(jobs),
      reset: () => this.reset(),
      state: (state, retryAt) => {
        const back = this.connection === 'lost' && state === 'open';
        this.connection = state;
        this.retryAt = retryAt;
        if (back) {
          this.sessionsChanged += 1;
          this.wakeAll();
        }
      },
    });
  }

  stop(): void {
    this.stream?.close();
    this.stream = undefined;
  }

  retryNow(): void {
    this.stream?.retryNow();
  }

  get readOnly(): boolean {
    return this.about?.allowed.read_only ?? false;
  }

  /** Events of one session, or of all for "*". */
  listen(session: string, listener: Listener): () => void {
    const set = this.listeners.get(session) ?? new Set();
    set.add(listener);
    this.listeners.set(session, set);
    return () => set.delete(listener);
  }

  /** For followJob: wakes when the job is no longer listed, when the connection is back, or after `ms`. */
  changed = (job: number, ms: number): Promise<void> =>
    new Promise((resolve) => {
      const entry = {
        job,
        done: () => {
          clearTimeout(timer);
          this.waiting.delete(entry);
          resolve();
        },
      };
      const timer = setTimeout(entry.done, ms);
      this.waiting.add(entry);
    });

  async cancel(job: number): Promise<void> {
    await cancelJob(job);
  }

  /** The session's job that works or waits now. */
  jobOf(session: string): ActiveJob | undefined {
    return this.jobs.find((job) => job.session === session);
  }

  private setJobs(jobs: ActiveJob[]): void {
    this.jobs = jobs;
    for (const entry of [...this.waiting]) if (!jobs.some((job) => job.job === entry.job)) entry.done();
  }

  private hand(row: EventRow): void {
    if (row.kind !== 'begin') for (const entry of [...this.waiting]) if (row.detail.job === entry.job) entry.done();
    this.sessionsChanged += 1;
    for (const key of [row.session, '*']) for (const listener of this.listeners.get(key) ?? []) listener(row);
  }

  private reset(): void {
    this.resets += 1;
    this.sessionsChanged += 1;
    this.wakeAll();
  }

  private wakeAll(): void {
    for (const entry of [...this.waiting]) entry.done();
  }
}

export const hub = new Hub();

onRefusal(() => {
  hub.stop();
  hub.connection = 'no_token';
});

/** Devices are asked for once: it may start a worker. */
let devices: ReturnType<typeof readDevices> | undefined;
const readDevices = async () => (await call('devices', {})).devices;
export function listDevices(again = false) {
  if (again || !devices) {
    devices = readDevices();
    devices.catch(() => (devices = undefined));
  }
  return devices;
}
