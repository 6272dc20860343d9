// SPDX-License-Identifier: Apache-2.0
import { afterEach, describe, expect, it, vi } from 'vitest';
import { bytes, change, count, percent, plural, ratio, seconds, significant, time, timeIn, timeUnit, when } from './format';
import { keyboard } from './keyboard.svelte';
import { Pages } from './pages.svelte';
import { kMostHeight, leastWidth, Scale } from './table';

describe('numbers', () => {
  it.each([
    [time(0), '0\u00a0ns'], [time(999), '999.0\u00a0ns'], [time(9835884), '9.836\u00a0ms'], [time(1.5e9), '1.500\u00a0s'], [time(NaN), '–'], [time(undefined), '–'], [time(-2500), '-2.500\u00a0µs'],
    [timeIn(1234567, timeUnit(5e6)), '1.235'], [significant(123456, 4), '123456'], [significant(0.00012345, 3), '0.000123'],
    [bytes(0), '0\u00a0B'], [bytes(1023), '1023\u00a0B'], [bytes(307200), '300\u00a0KiB'], [bytes(1536), '1.5\u00a0KiB'], [bytes(2 ** 40), '1\u00a0TiB'],
    [count(1234567), '1\u202f234\u202f567'], [count(12), '12'], [percent(0.6431), '64.3\u00a0%'], [ratio(0.98625), '×0.986'], [ratio(0), '–'],
    [change(0.986), '−1.4\u00a0%'], [change(1.02331), '+2.3\u00a0%'], [change(1.0001), '±0.0\u00a0%'], [change(0), '–'],
    [seconds(8.21), '8.2\u00a0s'], [seconds(75), '1:15'], [seconds(3661), '1:01:01'], [plural(1, 'run'), '1 run'], [plural(3, 'run'), '3 runs'],
  ])('%s', (got, wanted) => expect(got).toBe(wanted));
  it('dates are short today', () => {
    const now = new Date(2026, 11, 3, 12, 0, 0);
    expect(when(new Date(2026, 11, 3, 10, 40, 52).toISOString(), now)).toBe('10:40:52');
    expect(when(new Date(2026, 11, 2, 9, 5).toISOString(), now)).toBe('2026-12-02 09:05');
    expect(when('soon')).toBe('soon');
  });
});

describe('virtual rows', () => {
  it('lie one to one while the box can hold them', () => {
    const scale = new Scale(1000, 28, 500);
    expect(scale.scaled).toBe(false);
    expect(scale.top(560)).toBe(560);
    expect(scale.rows(560, 0)).toEqual([20, 38]);
    expect(scale.rows(scale.whole - scale.view, 0)[1]).toBe(1000);
  });
  it('reach first and last row of a list that no browser could lay out', () => {
    const scale = new Scale(5_000_000, 28, 560);
    expect(scale.height).toBe(kMostHeight);
    expect(scale.top(0)).toBe(0);
    expect(scale.rows(scale.top(scale.height - scale.view), 0)).toEqual([4_999_980, 5_000_000]);
    for (const top of [0, 28, 70_000_000, scale.whole - scale.view]) expect(scale.top(scale.scrollTop(top))).toBeCloseTo(top, 3);
  });
  it('have the least width of their columns', () => expect(leastWidth([{ key: 'a', title: '', width: '90px' }, { key: 'b', title: '', width: 'minmax(160px, 2fr)' }])).toBe(250));
});

describe('pages', () => {
  afterEach(() => vi.useRealTimers());
  const make = () => {
    const asked: number[] = [];
    const pages = new Pages<number>(async (offset, limit) => {
      asked.push(offset);
      return { total: 100_000, items: Array.from({ length: limit }, (_, i) => offset + i) };
    });
    return { asked, pages };
  };
  it('are read where somebody looks, once', async () => {
    vi.useFakeTimers();
    const { asked, pages } = make();
    pages.need(0, 30);
    await vi.advanceTimersByTimeAsync(100);
    pages.need(10, 40);
    await vi.advanceTimersByTimeAsync(100);
    expect(asked).toEqual([0]);
    expect([pages.row(7), pages.row(250), pages.total]).toEqual([7, undefined, 100_000]);
    pages.need(190, 230);
    await vi.advanceTimersByTimeAsync(100);
    expect(asked).toEqual([0, 200]);
    expect(pages.row(229)).toBe(229);
  });
  it('are not read while somebody drags by', async () => {
    vi.useFakeTimers();
    const { asked, pages } = make();
    for (let at = 0; at < 50_000; at += 5000) pages.need(at, at + 30);
    await vi.advanceTimersByTimeAsync(100);
    expect(asked).toEqual([45_000]);
  });
  it('keep what is shown until the new question is answered, and forget late answers', async () => {
    vi.useFakeTimers();
    let answer: (page: { total: number; items: string[] }) => void = () => undefined;
    const pages = new Pages<string>(() => new Promise((resolve) => (answer = resolve)));
    pages.need(0, 10);
    await vi.advanceTimersByTimeAsync(50);
    const late = answer;
    pages.reset();
    await vi.advanceTimersByTimeAsync(50);
    late({ total: 1, items: ['old'] });
    await vi.advanceTimersByTimeAsync(0);
    expect(pages.row(0)).toBeUndefined();
    answer({ total: 1, items: ['new'] });
    await vi.advanceTimersByTimeAsync(0);
    expect(pages.row(0)).toBe('new');
    pages.reset();
    await vi.advanceTimersByTimeAsync(50);
    expect(pages.row(0)).toBe('new');
  });
});

describe('keys', () => {
  const press = (key: string, options: KeyboardEventInit = {}, target: EventTarget = document.body) => {
    const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...options });
    Object.defineProperty(event, 'target', { value: target });
    keyboard.handle(event);
    return event.defaultPrevented;
  };
  it('run commands, the newest of equal keys, and sequences', () => {
    const ran: string[] = [];
    const stop = keyboard.add([
      { id: 'a', title: '', keys: 'c', run: () => ran.push('old c') },
      { id: 'b', title: '', keys: 'c', run: () => ran.push('new c') },
      { id: 'd', title: '', keys: 'g r', run: () => ran.push('g r') },
      { id: 'e', title: '', keys: 'Ctrl+S', run: () => ran.push('save') },
      { id: 'f', title: '', keys: 'x', when: () => false, run: () => ran.push('never') },
    ]);
    press('c');
    press('g');
    press('r');
    press('x');
    expect(press('s', { ctrlKey: true })).toBe(true);
    expect(ran).toEqual(['new c', 'g r', 'save']);
    stop();
    expect(press('c')).toBe(false);
  });
  it('leave single letters to who types, but not those with Ctrl', () => {
    const ran: string[] = [];
    const stop = keyboard.add([{ id: 'a', title: '', keys: 'c', run: () => ran.push('c') }, { id: 'b', title: '', keys: 'Ctrl+S', run: () => ran.push('s') }]);
    const editor = document.createElement('div');
    editor.className = 'cm-editor';
    const inside = editor.appendChild(document.createElement('span'));
    for (const target of [document.createElement('input'), document.createElement('textarea'), inside]) expect(press('c', {}, target)).toBe(false);
    press('s', { ctrlKey: true }, inside);
    expect(ran).toEqual(['s']);
    stop();
  });
});
