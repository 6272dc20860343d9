// SPDX-License-Identifier: Apache-2.0
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { CallError } from '../../api/client';
import type { Built, EventRow, Variant } from '../../api/types';
import type { SessionStore } from '../../state/session.svelte';
import { DraftStore, kOriginal } from './drafts';
import { SourceModel } from './source.svelte';

const kSource = 'void main() { sum += a; }\n';

/** A session as the panel uses it, with a compiler that makes a variant of every text but "broken". */
class FakeSession {
  id = 's1';
  summary = { capture: { bundle: '/b', device: { api: 'vulkan' } } };
  row = { dispatch: { kernel: 'k' }, roots: ['/p'], source: {} };
  open = true;
  busy = false;
  job = undefined;
  offline = false;
  file = { text: kSource, hash: 'h0' };
  variants: Variant[] = [];
  texts = new Map<string, string>();
  events: EventRow[] = [];
  builds: Record<string, unknown>[] = [];

  async call(verb: string, args: Record<string, unknown>): Promise<unknown> {
    await Promise.resolve();
    if (this.offline) throw new CallError('no_connection', 'gone');
    if (verb !== 'session.status') throw new Error(verb);
    if (args.view === 'source' && args.variant) return { text: this.texts.get(args.variant as string) };
    if (args.view === 'source') return { text: this.file.text, file: '/p/naive.comp', hash: this.file.hash };
    return { items: [] };
  }

  async all(view: string): Promise<unknown[]> {
    await Promise.resolve();
    if (this.offline) throw new CallError('no_connection', 'gone');
    return view === 'variants' ? this.variants : this.events;
  }

  add(id: string, name: string, text: string, request: Record<string, unknown> = {}): Variant {
    const job = this.events.length + 1;
    const variant = { id, name, language: 'glsl', source_file: `/s/${name}.comp`, source_hash: text, target_file: '/p/naive.comp', options: { defines: [] } } as unknown as Variant;
    this.variants = [...this.variants, variant];
    this.texts.set(id, text);
    this.events.push({ id: job, session: 's1', kind: 'begin', at: '', detail: { job, kind: 'build', request } });
    this.events.push({ id: job + 1, session: 's1', kind: 'build', at: '', detail: { job, by: 'cli', variant: id } });
    return variant;
  }

  start(_verb: string, args: Record<string, unknown>): { answer: Promise<Built>; progress: undefined; cancel: () => void } {
    this.builds.push(args);
    const text = String(args.source_text ?? '');
    const answer = Promise.resolve().then((): Built => {
      if (text.includes('broken')) throw new CallError('compile_failed', `/s/${String(args.name)}.comp:1: error: 'broken' : undeclared identifier`);
      const variant = this.add(`v${this.builds.length}`, String(args.name), text, args);
      return { variant, same_code: text === kSource, existed: false, messages: [], compiler: 'shaderc', cached: false, compile_ms: 1, log: '' };
    });
    return { answer, progress: undefined, cancel: () => undefined };
  }
}

let fake: FakeSession;
const store = () => new DraftStore('s1', sessionStorage);
async function model(variant = ''): Promise<SourceModel> {
  const m = new SourceModel(fake as unknown as SessionStore, store());
  await m.load(variant);
  return m;
}
beforeEach(() => {
  sessionStorage.clear();
  fake = new FakeSession();
});

describe('building', () => {
  it('makes a variant of the text, under a name that is free', async () => {
    fake.add('v0', 'naive-1', 'other');
    const m = await model();
    m.edited('void main() { fast; }');
    await m.build();
    expect(fake.builds).toEqual([{ name: 'naive-2', source_text: 'void main() { fast; }', language: 'glsl' }]);
    expect(m.base).toBe('v1');
    expect(m.dirty).toBe(false);
    expect(m.notice).toMatchObject({ tone: 'good', text: expect.stringContaining('naive-2') });
    expect(m.draftBases.size).toBe(0);
  });

  it('adds nothing for a text that a variant has, whatever its name', async () => {
    fake.add('v7', 'tried', 'void main() { twice; }');
    const m = await model();
    m.edited('void main() { twice; }');
    await m.build();
    expect(fake.builds).toEqual([]);
    expect(m.notice?.text).toContain('Nothing new was built');
    expect(m.notice?.text).toContain('tried (v7)');
    expect(m.base).toBe('v7');
    await m.build(true); // the file may have changed since
    expect(fake.builds).toHaveLength(1);
  });

  it('takes other options for something new', async () => {
    fake.add('v7', 'tried', 'void main() { twice; }');
    const m = await model('v7');
    m.setForm({ defines: 'TILE=16' });
    await m.build();
    expect(fake.builds).toEqual([{ name: 'tried-1', source_text: 'void main() { twice; }', language: 'glsl', defines: ['TILE=16'] }]);
    m.setForm({});
    await m.build();
    expect(fake.builds).toHaveLength(1);
    expect(m.base).toBe('v7');
  });

  it('keeps the text when it does not compile, and says where', async () => {
    const m = await model();
    m.edited('broken');
    await m.build();
    expect(m.messages).toMatchObject([{ line: 1, severity: 'error' }]);
    expect(m.builtAs).toBe('naive-1.comp');
    expect(m.text).toBe('broken');
    expect(m.base).toBe(kOriginal);
    expect(store().get(kOriginal)?.text).toBe('broken');
  });

  it('says that a build made the captured code', async () => {
    const m = await model();
    await m.build();
    expect(m.notice?.text).toContain('byte for byte');
  });

  it('compiles nothing when only the launch differs', async () => {
    const m = await model();
    m.setForm({ grid: '8,8' });
    await m.build();
    expect(fake.builds).toEqual([{ name: 'naive-1', grid: '8,8' }]);
  });

  it('keeps what was typed while it built as an edit of the new variant', async () => {
    const m = await model();
    m.edited('first');
    const building = m.build();
    await vi.waitFor(() => expect(fake.builds).toHaveLength(1));
    m.edited('second');
    await building;
    expect(m.base).toBe('v1');
    expect(m.baseText).toBe('first');
    expect(m.text).toBe('second');
    m.keep();
    expect(store().bases()).toEqual(['v1']);
  });

  it('does not build twice when asked twice', async () => {
    const m = await model();
    m.edited('once');
    await Promise.all([m.build(), m.build()]);
    expect(fake.builds).toHaveLength(1);
  });

  it('says why it does not build', async () => {
    const m = await model();
    m.edited('x');
    fake.busy = true;
    await m.build();
    expect(fake.builds).toEqual([]);
    expect(m.notice?.text).toContain('busy');
    fake.busy = false;
    m.setForm({ grid: '0' });
    await m.build();
    expect(m.notice?.text).toContain('options');
    m.setForm({});
    m.setName('a/b');
    expect(m.cannotBuild).toContain('slashes');
  });
});

describe('drafts', () => {
  it('come back in another page, the newest first', async () => {
    fake.add('v0', 'one', 'text of one');
    const before = await model();
    const now = vi.spyOn(Date, 'now').mockReturnValue(1000);
    before.edited('edit of the original');
    await before.open('v0');
    now.mockReturnValue(2000);
    before.edited('edit of one');
    before.stop();
    now.mockReturnValue(9000);
    const after = await model();
    expect(after.base).toBe('v0');
    expect(after.text).toBe('edit of one');
    expect(after.restoredAt).toBe(2000);
    after.keep();
    expect(store().get('v0')?.at).toBe(2000); // looking at it is not typing
    now.mockRestore();
    await after.open(kOriginal);
    expect(after.text).toBe('edit of the original');
    after.discard();
    expect(after.text).toBe(kSource);
    expect(store().bases()).toEqual(['v0']);
  });

  it('stay when the connection is gone', async () => {
    fake.add('v0', 'one', 'text of one');
    const m = await model();
    m.edited('mine');
    fake.offline = true;
    await m.open('v0');
    expect(m.baseProblem?.offline).toBe(true);
    expect(m.cannotBuild).not.toBe('');
    m.keep();
    expect(store().bases()).toEqual([kOriginal]);
    fake.offline = false;
    await m.again();
    expect(m.text).toBe('text of one');
    await m.open(kOriginal);
    expect(m.text).toBe('mine');
  });

  it('go when the text is as it was', async () => {
    const m = await model();
    m.edited('x');
    m.keep();
    expect(m.draftBases.has(kOriginal)).toBe(true);
    m.edited(kSource);
    m.keep();
    expect(m.draftBases.size).toBe(0);
  });
});

describe('the source on disk', () => {
  it('is followed while nothing is edited', async () => {
    const m = await model();
    fake.file = { text: 'saved\r\nby somebody', hash: 'h1' };
    await m.loadOriginal();
    expect(m.text).toBe('saved\nby somebody');
    expect(m.dirty).toBe(false);
  });
  it('does not overwrite an edit', async () => {
    const m = await model();
    m.edited('mine');
    fake.file = { text: 'theirs', hash: 'h1' };
    await m.loadOriginal();
    expect(m.text).toBe('mine');
    expect(m.notice?.text).toContain('has changed');
  });
});
