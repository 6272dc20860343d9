// SPDX-License-Identifier: Apache-2.0
// The runs of a session: rows as they come, details of those that are looked at. Shared by Runs, Roofline and
// Validation. Runs never change, so what was read is kept.
import { SvelteMap } from 'svelte/reactivity';
import { asCallError, call, type CallError } from '../../api/client';
import { resultOf } from '../../api/jobs';
import type { Compared, EventRow, Run, RunRow, Variant } from '../../api/types';
import type { SessionStore } from '../../state/session.svelte';
import { ofAnswer, ofRun, type Detail } from './details';

const kAtOnce = 3;
const kSettle = 120; // ms
const kKept = 200; // details with all their samples

/** Several variants that were compared together. */
export interface Finalists {
  finalists: Compared[];
  settled: number[];
  /** Index of the one with the lowest upper bound of those called faster. */
  best?: number;
}

/** How the last work that this page started has ended. */
export type Ended =
  | { kind: 'run'; answer: Run }
  | { kind: 'compare'; answer: Compared | Finalists }
  | { kind: 'cancelled'; what: string }
  | { kind: 'problem'; error: CallError };

/** What the table needs of a run, kept of all. */
export interface Brief {
  correctness: string;
  delta: Detail['delta'];
  q1_ns: number | undefined;
  q3_ns: number | undefined;
}

export class RunsStore {
  rows = $state.raw<RunRow[]>([]);
  loaded = $state(false);
  problem = $state.raw<CallError>();
  ended = $state.raw<Ended>();
  /** Id -> name. */
  names = $state.raw<Map<string, string>>(new Map([['baseline', 'baseline']]));
  variants = $state.raw<Variant[]>([]);
  private briefs = new SvelteMap<number, Brief>(); // each row waits for its own
  private settle: ReturnType<typeof setTimeout> | undefined;
  private known = new Set<number>(); // those that briefs has, without asking it reactively
  private full = new Map<number, Detail>();
  private jobs = new Map<number, number>();
  private eventCursor = '0';
  private wanted: number[] = [];
  private atWork = new Set<number>();
  private failed = new Set<number>();
  private waiting = new Map<number, Promise<Detail>>();
  private loading: Promise<void> | undefined;
  private again = false;

  constructor(private readonly session: SessionStore) {}

  name(variant: string): string {
    return this.names.get(variant) ?? variant;
  }

  brief(run: number): Brief | undefined {
    const row = this.byNumber(run);
    const known = this.briefs.get(run);
    if (known) return known;
    if (row && row.outcome !== 'ok') return { correctness: 'failed', delta: null, q1_ns: undefined, q3_ns: undefined };
    return undefined;
  }

  byNumber(run: number): RunRow | undefined {
    let low = 0;
    let high = this.rows.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const row = this.rows[middle];
      if (row === undefined) return undefined;
      if (row.run === run) return row;
      if (row.run < run) low = middle + 1;
      else high = middle - 1;
    }
    return undefined;
  }

  /** Reads what is new; a call while it reads makes it look once more. */
  load(): Promise<void> {
    if (this.loading) {
      this.again = true;
      return this.loading;
    }
    this.loading = this.read().finally(() => {
      this.loading = undefined;
      if (this.again) {
        this.again = false;
        void this.load();
      }
    });
    return this.loading;
  }

  async loadVariants(): Promise<void> {
    try {
      const all = await this.session.all<Variant>('variants');
      this.variants = all;
      this.names = new Map([['baseline', 'baseline'], ...all.map((v) => [v.id, v.name] as const)]);
    } catch (thrown) {
      const error = asCallError(thrown);
      if (!error.offline) this.problem = error;
    }
  }

  private async read(): Promise<void> {
    try {
      for (;;) {
        const last = this.rows[this.rows.length - 1]?.run ?? 0;
        const page = await call('session.status', { session: this.session.id, view: 'runs', cursor: String(last), limit: 200 });
        const fresh = (page.items ?? []) as RunRow[];
        if (fresh.length > 0) this.rows = [...this.rows, ...fresh];
        if (!page.next_cursor || fresh.length === 0) break;
      }
      this.loaded = true;
      this.problem = undefined;
    } catch (thrown) {
      const error = asCallError(thrown);
      if (!error.offline || !this.loaded) this.problem = error;
    }
  }

  /** Rows that are in view: what the list does not say of them is read, a few at a time, the newest wish first. */
  want(runs: readonly number[]): void {
    this.wanted = runs.filter((r) => !this.known.has(r) && !this.atWork.has(r) && !this.failed.has(r) && this.byNumber(r)?.outcome === 'ok');
    clearTimeout(this.settle);
    this.settle = setTimeout(() => this.pull(), kSettle); // nothing is read while somebody scrolls
  }

  private pull(): void {
    while (this.atWork.size < kAtOnce) {
      const run = this.wanted.shift();
      if (run === undefined) return;
      if (this.atWork.has(run) || this.known.has(run)) continue;
      this.atWork.add(run);
      this.detail(run)
        .catch(() => this.failed.add(run))
        .finally(() => {
          this.atWork.delete(run);
          this.pull();
        });
    }
  }

  /** Everything of one run. */
  detail(run: number): Promise<Detail> {
    const known = this.full.get(run);
    if (known) return Promise.resolve(known);
    const under = this.waiting.get(run);
    if (under) return under;
    const work = this.readDetail(run).finally(() => this.waiting.delete(run));
    this.waiting.set(run, work);
    return work;
  }

  /** The answer of a job that this page has just followed: no second reading. */
  took(answer: Run): void {
    this.keep(
      ofRun({ run: answer.run, variant: answer.variant, outcome: answer.outcome, dispatch: answer.dispatch, device: '', conditions: answer.ran, at: '' }, answer, answer.job ?? null),
    );
  }

  private async readDetail(run: number): Promise<Detail> {
    await this.jobsOf(run);
    const job = this.jobs.get(run);
    let row = this.byNumber(run);
    if (job !== undefined && row !== undefined) {
      try {
        const answer = resultOf<'session.run'>((await call('job.wait', { job, wait_s: 0 })).job);
        if (answer?.run === run) return this.keep(ofRun(row, answer, job));
      } catch (thrown) {
        if (asCallError(thrown).offline) throw thrown;
      }
    }
    const answer = await call('session.status', { session: this.session.id, view: 'runs', run });
    row = (answer.items as RunRow[] | undefined)?.[0] ?? row;
    if (row === undefined) throw new Error(`there is no run ${run}`);
    const detail = ofAnswer(row, row.answer);
    return this.keep(job === undefined ? detail : { ...detail, job });
  }

  private keep(detail: Detail): Detail {
    this.full.delete(detail.run);
    this.full.set(detail.run, detail);
    for (const oldest of this.full.keys()) {
      if (this.full.size <= kKept) break;
      this.full.delete(oldest);
    }
    const s = detail.summary;
    this.known.add(detail.run);
    // Whether a delta may be shown depends on the run that it is against.
    const before = detail.delta?.run;
    if (before !== undefined && !this.known.has(before) && this.byNumber(before)?.outcome === 'ok') this.wanted.push(before);
    this.briefs.set(detail.run, { correctness: detail.correctness, delta: detail.delta, q1_ns: s?.q1_ns, q3_ns: s?.q3_ns });
    return detail;
  }

  private reading: Promise<void> | undefined;

  /** Which job made which run: its event says so. */
  private async jobsOf(run: number): Promise<void> {
    if (this.jobs.has(run)) return;
    for (const e of this.session.events) this.note(e);
    if (this.jobs.has(run)) return;
    this.reading ??= this.readEvents().finally(() => (this.reading = undefined));
    await this.reading;
  }

  private note(e: EventRow): void {
    if (e.kind === 'run' && e.detail.run !== undefined && e.detail.job !== undefined) this.jobs.set(e.detail.run, e.detail.job);
  }

  private async readEvents(): Promise<void> {
    for (;;) {
      const page = await call('session.status', { session: this.session.id, view: 'events', cursor: this.eventCursor, limit: 200 });
      const rows = (page.items ?? []) as EventRow[];
      for (const e of rows) this.note(e);
      const last = rows[rows.length - 1];
      if (last) this.eventCursor = String(last.id);
      if (!page.next_cursor || rows.length === 0) return;
    }
  }
}

const stores = new WeakMap<SessionStore, RunsStore>();
export function runsOf(session: SessionStore): RunsStore {
  let store = stores.get(session);
  if (!store) {
    store = new RunsStore(session);
    stores.set(session, store);
  }
  return store;
}
