// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import verbs from '../../../../schemas/verbs.json';
import { build, conditionsLine, defaults, reasons, restored, settled, unseenLaunch, type Form, type Place } from './conditions';
import { liveInterval } from './live';

const vulkan: Place = { api: 'vulkan', type: 'cpu', memory_pools: null, counters: null };
const hip: Place = { api: 'hip', type: 'integrated', memory_pools: null, counters: null };
const form = (more: Partial<Form> = {}): Form => ({ ...defaults(), ...more });
const args = (more: Partial<Form>, place = vulkan) => build(form(more), place).arguments;
const problems = (more: Partial<Form>, place = vulkan) => build(form(more), place).problems.map((p) => p.field);

describe('a run', () => {
  it('asks for the defaults that the command line has', () => {
    expect(build(defaults(), vulkan)).toEqual({
      problems: [],
      arguments: { variant: 'baseline', iterations: 20, mode: 'isolated', cache: 'cold', level: 'bitwise', seed: 1 },
    });
  });
  it('names a dispatch where it is not the first', () => {
    expect(args({ dispatch: '2' })).toMatchObject({ dispatch: 2 });
    expect(args({ dispatch: '0' })).not.toHaveProperty('dispatch');
  });
  it('keeps iterations from 1 to 10,000', () => {
    for (const iterations of ['0', '10001', '2.5', 'x', '']) expect(problems({ iterations })).toContain('iterations');
    for (const iterations of ['1', '10000']) expect(problems({ iterations })).toEqual([]);
  });
  it('sends repeats in that mode only', () => {
    expect(args({ mode: 'repeats', repeats: '7' })).toMatchObject({ mode: 'repeats', repeats: 7 });
    expect(args({ mode: 'isolated', repeats: '7' })).not.toHaveProperty('repeats');
    expect(problems({ mode: 'repeats', repeats: '1' })).toEqual(['repeats']);
    expect(problems({ mode: 'isolated', repeats: '1' })).toEqual([]);
  });
  it('says its flush in MiB and only for a cold cache', () => {
    expect(args({ flush_mb: '64' })).toMatchObject({ flush_mb: 64 });
    expect(args({ flush_mb: '64', cache: 'warm' })).not.toHaveProperty('flush_mb');
    expect(problems({ flush_mb: '70000' })).toEqual(['flush_mb']);
  });
  it('names work, launches and checks as the verbs take them', () => {
    const made = args({
      flops: '2e9 fp64=1e9', bytes: 'read=8e8 written=4e8', level: 'numeric', types: 'out=f16:4096x4096\n\n b=f32 ', tolerances: 'abs=1e-5,rel=1e-4',
      unseen: 'grid=3,1,1 push=0=e8030000 push=4=00', seed: '9', grid: '3,1,1', spec_constants: '0=4 1=8', subgroup_size: '32', cached: true, other_captures: false,
    });
    expect(made).toMatchObject({
      flops: ['2e9', 'fp64=1e9'], bytes: ['read=8e8', 'written=4e8'], level: 'numeric', types: ['out=f16:4096x4096', 'b=f32'], tolerances: ['abs=1e-5,rel=1e-4'],
      unseen_launches: [{ grid: '3,1,1', push_constants: ['0=e8030000', '4=00'] }], seed: 9, grid: '3,1,1', spec_constants: ['0=4', '1=8'], subgroup_size: 32, cached: true,
      other_captures: false,
    });
  });
  it('names a checker of klab.toml for level custom', () => {
    expect(problems({ level: 'custom' })).toEqual(['checker']);
    expect(args({ level: 'custom', checker: 'close_enough' })).toMatchObject({ level: 'custom', checker: ['close_enough'] });
    expect(args({ level: 'bitwise', checker: 'close_enough' })).not.toHaveProperty('checker');
  });
  it('sends no checks when nothing is checked', () => {
    const made = args({ validate: false, level: 'numeric', types: 'out=f32', unseen: 'grid=3' });
    expect(made).toMatchObject({ validate: false });
    for (const name of ['level', 'types', 'unseen_launches']) expect(made).not.toHaveProperty(name);
  });
  it('only names what the schemas of the verbs know', () => {
    const known = (verb: 'session.run' | 'session.compare') => Object.keys(verbs.verbs[verb].arguments.properties);
    const everything: Partial<Form> = {
      mode: 'repeats', memory: 'device', flush_mb: '1', level: 'numeric', types: 'a=f32', tolerances: 'abs=1', references: 'a=b.npy', unseen: 'grid=1', flops: '1', bytes: '1',
      counters: 'default', device: '0', budget_s: '9', cached: true, validate: true, other_captures: false, grid: '1', block: '1', cluster: '1', dynamic_shared: '1', attributes: 'A=1',
      spec_constants: '0=1', push_constants: '0=00', subgroup_size: '8', candidates: ['v1'],
    };
    for (const place of [vulkan, { ...vulkan, api: 'cuda' }]) {
      expect(known('session.run')).toEqual(expect.arrayContaining(Object.keys(args(everything, place))));
      expect(known('session.compare')).toEqual(expect.arrayContaining(Object.keys(args({ ...everything, kind: 'compare', mode: 'isolated' }, place))));
    }
  });
});

describe('a comparison', () => {
  it('needs a variant that is not what it is against', () => {
    expect(problems({ kind: 'compare' })).toEqual(['candidates']);
    expect(problems({ kind: 'compare', candidates: ['v1'], against: 'v1' })).toEqual(['against']);
    expect(problems({ kind: 'compare', candidates: ['baseline'], against: 'v1' })).toEqual(['candidates']);
    expect(problems({ kind: 'compare', candidates: 'abcdefghi'.split('') })).toEqual(['candidates']);
  });
  it('sends time and margin, not iterations', () => {
    const made = args({ kind: 'compare', candidates: ['v1'], measure_s: '4', margin: '1' });
    expect(made).toMatchObject({ variant: 'v1', against: 'baseline', measure_s: 4, margin: 0.01 });
    for (const name of ['iterations', 'cached', 'counters', 'grid', 'validate']) expect(made).not.toHaveProperty(name);
  });
  it('names finalists together', () => {
    expect(args({ kind: 'compare', candidates: ['v1', 'v2'] })).toMatchObject({ variants: ['v1', 'v2'] });
    expect(args({ kind: 'compare', candidates: ['v1', 'v2'] })).not.toHaveProperty('variant');
  });
  it('has no mode repeats', () => {
    expect(reasons(form({ kind: 'compare' }), vulkan)['mode.repeats']).toBeTruthy();
    expect(settled(form({ kind: 'compare', mode: 'repeats' })).mode).toBe('isolated');
  });
  it('keeps a margin of at least half a percent', () => {
    expect(problems({ kind: 'compare', candidates: ['v1'], margin: '0.1' })).toEqual(['margin']);
  });
});

describe('options that cannot be used', () => {
  it('say why memory is refused on HIP and CUDA, and do not send it', () => {
    expect(reasons(form(), hip).memory).toMatch(/unified-memory APU/);
    expect(reasons(form(), { ...hip, api: 'cuda' }).memory).toMatch(/another program/);
    expect(args({ memory: 'host' }, hip)).not.toHaveProperty('memory');
    expect(args({ memory: 'host' }, vulkan)).toMatchObject({ memory: 'host' });
  });
  it('say that one pool makes no difference once the device was asked', () => {
    expect(reasons(form(), { ...vulkan, memory_pools: false }).memory).toMatch(/one memory pool/);
    expect(reasons(form(), { ...vulkan, memory_pools: true }).memory).toBeUndefined();
  });
  it('leave a sustained run its warm cache', () => {
    expect(settled(form({ mode: 'sustained', cache: 'rotating' })).cache).toBe('warm');
    const why = reasons(form({ mode: 'sustained', cache: 'warm' }), vulkan);
    expect(why['cache.cold']).toBeTruthy();
    expect(why['cache.rotating']).toBeTruthy();
    expect(why.flush_mb).toBeTruthy();
  });
});

describe('small pieces', () => {
  it('launch words say what is wrong with them', () => {
    expect(unseenLaunch('grid')).toMatch(/NAME=VALUE/);
    expect(unseenLaunch('colour=3')).toMatch(/has no colour/);
    expect(unseenLaunch('block=4 attribute=A=1')).toEqual({ block: '4', attributes: ['A=1'] });
  });
  it('a kept form of another version loses what does not fit', () => {
    const back = restored({ iterations: 7, cache: 'warm', candidates: ['a', 3], unknown: 1 });
    expect(back).toEqual({ ...defaults(), cache: 'warm', candidates: ['a'] });
    expect(restored(null)).toEqual(defaults());
  });
  it('conditions are one line', () => {
    expect(conditionsLine({ mode: 'repeats', iterations: 5, cache: 'cold', repeats: 3, memory: 'host', flush_mb: 64 })).toBe(
      'repeats, 5 iterations, cache cold, 3 replays with fresh allocations, memory host, 64 MiB flushed before each launch',
    );
  });
  it('the interval so far is read out of the line, or not at all', () => {
    expect(liveInterval("fast (1 of 2): B takes 0.9862 of A's time, 0.9470 to 1.0272 so far")).toEqual({ ratio: 0.9862, low: 0.947, high: 1.0272 });
    expect(liveInterval("B takes 0.9862 of A's time so far")).toBeNull();
    expect(liveInterval("measuring what two copies of one module differ by here: B takes 1.0405 of A's time, 0.9847 to 1.0995 so far")).toBeNull();
    expect(liveInterval('loading copies of the capture')).toBeNull();
  });
});
