// SPDX-License-Identifier: Apache-2.0
// Text that was typed and not built yet. It outlives a reload, a lost connection and a look at another panel:
// kept in the tab's sessionStorage, one draft for each text that was edited (a variant, or the original).
import type { BuildForm } from './options';

/** The original source, in place of a variant's id. */
export const kOriginal = 'original';

export interface Draft {
  text: string;
  form: BuildForm;
  /** As the person typed it; empty: the default name. */
  name: string;
  /** Hash of the text that the edit began from, when the server told one. */
  from: string;
  at: number;
}

type Drafts = Record<string, Draft>;

export class DraftStore {
  readonly #key: string;
  readonly #storage: Storage | undefined;
  #drafts: Drafts;

  constructor(session: string, storage: Storage | undefined = safeStorage()) {
    this.#key = `klab.drafts.${session}`;
    this.#storage = storage;
    this.#drafts = this.#read();
  }

  get(base: string): Draft | undefined {
    return this.#drafts[base];
  }

  bases(): string[] {
    return Object.keys(this.#drafts);
  }

  /** False when it is only in memory: the storage is full, or forbidden. */
  put(base: string, draft: Draft): boolean {
    this.#drafts[base] = draft;
    return this.#write();
  }

  drop(base: string): void {
    if (!(base in this.#drafts)) return;
    delete this.#drafts[base];
    this.#write();
  }

  #read(): Drafts {
    try {
      const text = this.#storage?.getItem(this.#key);
      const value: unknown = text ? JSON.parse(text) : {};
      if (typeof value !== 'object' || value === null) return {};
      return Object.fromEntries(Object.entries(value as Drafts).filter(([, d]) => typeof d?.text === 'string'));
    } catch {
      return {};
    }
  }

  #write(): boolean {
    try {
      if (!this.#storage) return false;
      if (Object.keys(this.#drafts).length === 0) this.#storage.removeItem(this.#key);
      else this.#storage.setItem(this.#key, JSON.stringify(this.#drafts));
      return true;
    } catch {
      return false;
    }
  }
}

function safeStorage(): Storage | undefined {
  try {
    return globalThis.sessionStorage;
  } catch {
    return undefined; // cookies and storage forbidden
  }
}
