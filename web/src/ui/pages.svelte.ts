// SPDX-License-Identifier: Apache-2.0
// Rows of a long list that lies on the server: pages are read where somebody looks, and a few are kept.
import { asCallError, type CallError } from '../api/client';

export interface PageAnswer<Row> {
  total: number;
  items: Row[];
}
export type ReadPage<Row> = (offset: number, limit: number, signal: AbortSignal) => Promise<PageAnswer<Row>>;

const kPage = 200;
const kKept = 40;
/** While somebody drags the scroll bar nothing is asked for. */
const kSettle = 40;

export class Pages<Row> {
  total = $state(0);
  problem = $state.raw<CallError>();
  /** Nothing has come yet. */
  loading = $state(true);
  private version = $state(0);
  private pages = new Map<number, Row[]>();
  private asked = new Map<number, AbortController>();
  private range: [number, number] = [0, 0];
  private timer: ReturnType<typeof setTimeout> | undefined;
  private generation = 0;

  constructor(private read: ReadPage<Row>) {}

  /** Another question (sort, filter), or the same one again. What is shown stays until the new rows are there. */
  reset(read: ReadPage<Row> = this.read): void {
    this.read = read;
    this.generation += 1;
    for (const one of this.asked.values()) one.abort();
    this.asked.clear();
    this.fetch(new Map());
  }

  /** Nothing is shown until the next reset(). */
  clear(): void {
    this.stop();
    this.asked.clear();
    this.pages = new Map();
    this.total = 0;
    this.loading = true;
    this.problem = undefined;
    this.version += 1;
  }

  row(index: number): Row | undefined {
    void this.version;
    return this.pages.get(Math.floor(index / kPage))?.[index % kPage];
  }

  /** Rows `from` to before `to` are looked at. */
  need(from: number, to: number): void {
    this.range = [from, to];
    if (this.timer !== undefined) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.fetch(this.pages);
    }, kSettle);
  }

  /** Index of a row among those that are loaded. */
  find(test: (row: Row) => boolean): number {
    for (const [page, rows] of this.pages) {
      const at = rows.findIndex(test);
      if (at >= 0) return page * kPage + at;
    }
    return -1;
  }

  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    for (const one of this.asked.values()) one.abort();
    this.generation += 1;
  }

  private fetch(into: Map<number, Row[]>): void {
    const first = Math.floor(this.range[0] / kPage);
    const last = Math.floor(Math.max(this.range[0], this.range[1] - 1) / kPage);
    for (const [page, one] of this.asked)
      if (page < first - 1 || page > last + 1) {
        one.abort();
        this.asked.delete(page);
      }
    for (let page = first; page <= last; ++page) if (!into.has(page) && !this.asked.has(page)) void this.fetchPage(page, into);
  }

  private async fetchPage(page: number, into: Map<number, Row[]>): Promise<void> {
    const abort = new AbortController();
    const generation = this.generation;
    this.asked.set(page, abort);
    try {
      const answer = await this.read(page * kPage, kPage, abort.signal);
      if (generation !== this.generation) return;
      into.set(page, answer.items);
      for (const old of into.keys()) {
        if (into.size <= kKept) break;
        if (Math.abs(old - page) > 2) into.delete(old);
      }
      this.pages = into;
      this.total = answer.total;
      this.problem = undefined;
      this.loading = false;
      this.version += 1;
    } catch (thrown) {
      const error = asCallError(thrown);
      if (generation !== this.generation || error.cancelled) return;
      this.problem = error;
      this.loading = false;
    } finally {
      if (this.asked.get(page) === abort) this.asked.delete(page);
    }
  }
}
