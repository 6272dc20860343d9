// SPDX-License-Identifier: Apache-2.0
// Where the code panel's figures come from: runs, builds and comparisons that the session has made. Starts nothing.
import { call } from '../../api/client';
import type { EventRow } from '../../api/types';
import type { SessionStore } from '../../state/session.svelte';
import { merged, ofBuild, ofComparison, ofRun, type Resource } from './resources';

type Json = Record<string, unknown>;

export const kBaseline = 'baseline';
const kMostEvents = 10_000;

export interface Figures {
  resources: Resource[];
  /** Machine code as the driver gave it with a run. */
  isa: string;
  /** What they were taken from, in words. */
  from: string[];
}

/** Reads of one session: answers do not change, so each is asked for once. */
export class CodeReader {
  #jobs = new Map<number, Promise<Json | undefined>>();

  constructor(private readonly session: SessionStore) {}

  async disassembly(variant: string): Promise<{ text: string; leftOut: number }> {
    const answer = await this.session.call('session.status', { view: 'disassembly', ...(variant === kBaseline ? {} : { variant }) });
    return { text: answer.text ?? '', leftOut: answer.left_out_bytes ?? 0 };
  }

  /** Figures of both sides, from the newest run of each and what else there is. */
  async figures(left: string, right: string): Promise<{ left: Figures; right: Figures }> {
    const events = await this.session.all<EventRow>('events', { most: kMostEvents });
    const names = new Map<string, string>([[kBaseline, kBaseline]]);
    for (const e of events) if (e.kind === 'build' && e.detail.variant && e.detail.name) names.set(e.detail.variant, e.detail.name);

    const side = async (id: string, other: string): Promise<Figures> => {
      const lists: Resource[][] = [];
      const from: string[] = [];
      let isa = '';
      const run = events.findLast((e) => e.kind === 'run' && e.detail.variant === id && e.detail.state === 'done' && e.detail.job !== undefined)?.detail;
      const answer = run?.job === undefined ? undefined : await this.#job(run.job);
      if (run && answer) {
        lists.push(ofRun(answer));
        from.push(`run ${run.run ?? ''}`.trim());
        const driver = (answer.resources as Json | undefined)?.driver as Json | undefined;
        if (typeof driver?.isa === 'string') isa = driver.isa;
      }
      // CUDA and HIP builds tell the captured kernel's figures too.
      const builds = id === kBaseline ? [other] : [id];
      for (const of of builds) {
        const job = events.findLast((e) => e.kind === 'build' && e.detail.variant === of && e.detail.job !== undefined)?.detail.job;
        const built = job === undefined ? undefined : await this.#job(job);
        if (!built) continue;
        const both = ofBuild(built);
        const list = id === kBaseline ? both.baseline : both.variant;
        if (list.length > 0) from.push(`build of ${names.get(of) ?? of}`);
        lists.push(list);
      }
      if (!answer) {
        const compared = events.findLast((e) => e.kind === 'compare' && (e.detail.variant === id || (id === kBaseline && e.detail.variant === other)) && e.detail.state === 'done');
        const result = compared?.detail.job === undefined ? undefined : await this.#job(compared.detail.job);
        const list = result ? ofComparison(result, names.get(id) ?? id) : [];
        if (list.length > 0) from.push(`comparison ${compared?.detail.comparison ?? ''}`.trim());
        lists.push(list);
      }
      return { resources: merged(...lists), isa, from };
    };
    const [a, b] = await Promise.all([side(left, right), side(right, left)]);
    return { left: a, right: b };
  }

  #job(id: number): Promise<Json | undefined> {
    return once(this.#jobs, id, async () => {
      const result = (await call('job.wait', { job: id, wait_s: 0 })).job.result;
      return typeof result === 'object' && result !== null ? (result as Json) : undefined;
    });
  }
}

function once<V>(kept: Map<number, Promise<V>>, key: number, read: () => Promise<V>): Promise<V> {
  let promise = kept.get(key);
  if (!promise) {
    promise = read();
    kept.set(key, promise);
    promise.catch(() => kept.delete(key));
  }
  return promise;
}

/** "Occupancy 75 %, limited by registers"; empty when it is not known. */
export function occupancyWords(resources: readonly Resource[]): string {
  const get = (key: string) => resources.find((r) => r.key === key)?.value;
  const share = get('occupancy') ?? get('driver_occupancy');
  if (typeof share !== 'number') return '';
  const limit = get('occupancy_limit');
  return `${(share * 100).toFixed(0)} %${limit ? `, limited by ${String(limit)}` : ''}`;
}
