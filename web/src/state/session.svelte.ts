// SPDX-License-Identifier: Apache-2.0
// One session as the page sees it: its row, its summary, what changed of it, and its jobs.
// Panels get it as their only property. What they show they read themselves and read again when its topic changes:
//   $effect(() => { session.changed('runs'); void load(); })
import { asCallError, call, CallError, type CallOptions } from '../api/client';
import { followJob, startJob } from '../api/jobs';
import type { ActiveJob, Answer, Arguments, EventRow, NextAction, Session, StatusAnswer, Verb } from '../api/types';
import { hub } from './hub.svelte';

export type Topic = 'summary' | 'dispatches' | 'capture' | 'source' | 'variants' | 'runs' | 'comparisons' | 'saves' | 'jobs' | 'events';
const kTopics: Topic[] = ['summary', 'dispatches', 'capture', 'source', 'variants', 'runs', 'comparisons', 'saves', 'jobs', 'events'];

/** Verbs whose arguments name the session. */
type Own = { [V in Verb]: Arguments<V> extends { session: string } | { session?: string | undefined } ? V : never }[Verb];
type Without<T> = Omit<T, 'session'>;
type View = NonNullable<Arguments<'session.status'>['view']>;

const kDebounce = 100;
const kKeptEvents = 500;

/** What an event changes, beside events, jobs and the summary. */
function topicsOf(row: EventRow): Topic[] {
  switch (row.kind) {
    case 'trace': return ['dispatches'];
    case 'capture': return ['capture', 'source', 'variants'];
    case 'search': case 'select_source': return ['source', 'variants'];
    case 'dispatch_selected': return ['capture'];
    case 'build': return ['variants'];
    case 'run': return ['runs', 'variants'];
    case 'compare': return ['comparisons', 'variants', 'runs'];
    case 'save': case 'save_asked': case 'save_approved': case 'save_denied': case 'undone': return ['saves', 'source', 'variants'];
    case 'begin': return [];
    default: return ['capture'];
  }
}

/** A verb at work that this page started. */
export class OwnJob<V extends Verb = Verb> {
  number = $state(0); // 0: not yet started
  ended = $state(false);
  readonly answer: Promise<Answer<V>>;

  constructor(readonly verb: V, start: () => Promise<number>, private readonly signal?: AbortSignal) {
    this.answer = this.follow(start).finally(() => (this.ended = true));
    this.answer.catch(() => undefined); // who wants the answer gets the error too
  }

  private async follow(start: () => Promise<number>): Promise<Answer<V>> {
    this.number = await start();
    return followJob<V>(this.number, hub.changed, this.signal);
  }

  get progress() {
    return hub.jobs.find((job) => job.job === this.number)?.progress;
  }

  async cancel(): Promise<void> {
    if (this.number) await hub.cancel(this.number);
  }
}

export class SessionStore {
  row = $state.raw<Session>();
  summary = $state.raw<StatusAnswer>();
  actions = $state.raw<NextAction[]>([]);
  problem = $state.raw<CallError>();
  /** Newest last; what came while the page was open. */
  events = $state.raw<EventRow[]>([]);
  /** Jobs of this page that have not ended: the list of the hub knows them a moment later. */
  ownJobs = $state(0);
  private versions = $state<Record<Topic, number>>(Object.fromEntries(kTopics.map((topic) => [topic, 0])) as Record<Topic, number>);
  private pending = new Set<Topic>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private stopListening: () => void;
  private closed = false;
  private loading: Promise<void> | undefined;

  constructor(readonly id: string) {
    this.stopListening = hub.listen(id, (row) => this.heard(row));
    void this.reload();
  }

  /** Reads the reactive counter of a topic: an effect that calls it runs again when the topic changes. */
  changed(topic: Topic): number {
    return this.versions[topic] + hub.resets;
  }

  /** The job of this session that waits or runs, whoever started it. */
  get job(): ActiveJob | undefined {
    return hub.jobOf(this.id);
  }

  get busy(): boolean {
    return this.row?.state === 'running' || this.job !== undefined;
  }

  get state() {
    return this.row?.state;
  }

  get open(): boolean {
    return this.row !== undefined && this.row.state !== 'closed';
  }

  /** Calls a verb on this session. */
  async call<V extends Own>(verb: V, args: Without<Arguments<V>>, options: CallOptions = {}): Promise<Answer<V>> {
    const answer = await call(verb, { ...args, session: this.id } as unknown as Arguments<V>, options);
    this.take(answer);
    return answer;
  }

  /** Starts a verb on this session as a job; `await job.answer` gives its answer. */
  start<V extends Own>(verb: V, args: Without<Arguments<V>>, signal?: AbortSignal): OwnJob<V> {
    const job = new OwnJob<V>(verb, () => startJob(verb, { ...args, session: this.id } as unknown as Arguments<V>, this.id), signal);
    this.ownJobs += 1;
    const again = () => {
      this.ownJobs -= 1;
      void this.reload(); // the events of its end come a moment later
    };
    job.answer.then(again, again);
    return job;
  }

  /** All rows of a view, page by page. */
  async all<Row>(view: View, options: CallOptions & { most?: number } = {}): Promise<Row[]> {
    const rows: Row[] = [];
    let cursor: string | undefined;
    do {
      const page = await this.call('session.status', { view, cursor, limit: 200 }, options);
      rows.push(...((page.items ?? []) as Row[]));
      cursor = page.next_cursor;
    } while (cursor && rows.length < (options.most ?? Infinity));
    return rows;
  }

  reload(): Promise<void> {
    this.loading ??= this.read().finally(() => (this.loading = undefined));
    return this.loading;
  }

  /** Nothing is heard any more. */
  stop(): void {
    this.closed = true;
    this.stopListening();
    clearTimeout(this.timer);
  }

  private async read(): Promise<void> {
    try {
      const summary = await call('session.status', { session: this.id, view: 'summary' });
      if (this.closed) return;
      this.summary = summary;
      this.take(summary);
      this.problem = undefined;
    } catch (thrown) {
      const error = asCallError(thrown);
      if (!error.offline || !this.row) this.problem = error; // offline: what is shown stays
    }
  }

  /** Answers carry the session's row and what can be done next. */
  private take(answer: unknown): void {
    const { session, next_actions } = answer as { session?: Session; next_actions?: NextAction[] };
    if (session?.id === this.id) this.row = session;
    if (next_actions && session) this.actions = next_actions;
  }

  private heard(row: EventRow): void {
    this.events = [...this.events.slice(-kKeptEvents + 1), row];
    for (const topic of topicsOf(row)) this.pending.add(topic);
    for (const topic of ['summary', 'jobs', 'events'] as const) this.pending.add(topic);
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      for (const topic of this.pending) this.versions[topic] += 1;
      this.pending.clear();
      void this.reload();
    }, kDebounce);
  }
}
