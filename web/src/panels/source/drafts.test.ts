// SPDX-License-Identifier: Apache-2.0
import { expect, it } from 'vitest';
import { DraftStore, kOriginal, type Draft } from './drafts';
import { emptyForm } from './options';

class MemoryStorage {
  map = new Map<string, string>();
  full = false;
  get length() { return this.map.size; }
  clear() { this.map.clear(); }
  key(i: number) { return [...this.map.keys()][i] ?? null; }
  getItem(k: string) { return this.map.get(k) ?? null; }
  removeItem(k: string) { this.map.delete(k); }
  setItem(k: string, v: string) {
    if (this.full) throw new DOMException('full', 'QuotaExceededError');
    this.map.set(k, v);
  }
}

const draft = (text: string): Draft => ({ text, form: emptyForm(), name: '', from: 'abc', at: 1 });

it('is there again after a reload, for its own session only', () => {
  const storage = new MemoryStorage();
  expect(new DraftStore('s1', storage).put(kOriginal, draft('void main() {}'))).toBe(true);
  expect(new DraftStore('s1', storage).get(kOriginal)?.text).toBe('void main() {}');
  expect(new DraftStore('s2', storage).get(kOriginal)).toBeUndefined();
});

it('keeps one draft for each text', () => {
  const drafts = new DraftStore('s1', new MemoryStorage());
  drafts.put(kOriginal, draft('a'));
  drafts.put('v1', draft('b'));
  drafts.drop(kOriginal);
  expect(drafts.bases()).toEqual(['v1']);
});

it('says when the storage is full, and still has the text', () => {
  const storage = new MemoryStorage();
  const drafts = new DraftStore('s1', storage);
  storage.full = true;
  expect(drafts.put('v1', draft('b'))).toBe(false);
  expect(drafts.get('v1')?.text).toBe('b');
});

it('starts empty from a damaged store', () => {
  const storage = new MemoryStorage();
  storage.map.set('klab.drafts.s1', '{"v1": {"no": 1}, "v2": ');
  expect(new DraftStore('s1', storage).bases()).toEqual([]);
  storage.map.set('klab.drafts.s1', '{"v1": {"no": 1}, "v2": null}');
  expect(new DraftStore('s1', storage).bases()).toEqual([]);
});

it('leaves nothing behind once every draft is built', () => {
  const storage = new MemoryStorage();
  const drafts = new DraftStore('s1', storage);
  drafts.put('v1', draft('b'));
  drafts.drop('v1');
  expect(storage.length).toBe(0);
});
