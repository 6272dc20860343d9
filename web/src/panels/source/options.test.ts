// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { argumentsOf, cleaned, emptyForm, fieldsOf, formOf, formWords, hasLaunch, languageOf, problemsOf, sameForm } from './options';

it('offers of each API only what it has', () => {
  const keys = (api: 'vulkan' | 'cuda' | 'hip') => fieldsOf(api).map((f) => f.key);
  expect(keys('vulkan')).not.toContain('block');
  expect(keys('vulkan')).toContain('spec_constants');
  expect(keys('cuda')).toEqual(expect.arrayContaining(['compiler', 'max_registers', 'cluster', 'block']));
  expect(keys('hip')).not.toContain('max_registers');
  expect(keys('hip')).not.toContain('push_constants');
});

describe('argumentsOf', () => {
  it('sends nothing for an empty form', () => expect(argumentsOf(emptyForm(), 'vulkan', { defines: ['A'] })).toEqual({}));
  it('types what it sends', () => {
    expect(argumentsOf({ defines: 'A\n B=2 \n', subgroup_size: '32', grid: '8,8', spec_constants: '0=64' }, 'vulkan')).toEqual({
      defines: ['A', 'B=2'], subgroup_size: 32, grid: '8,8', spec_constants: ['0=64'],
    });
    expect(argumentsOf({ fast_math: 'off', max_registers: '64' }, 'cuda')).toEqual({ fast_math: false, max_registers: 64 });
  });
  it('knows the booleans of the request and those of the options', () => {
    expect(argumentsOf({ debug_info: 'on' }, 'vulkan', { debug_info: false, defines: [] })).toEqual({ options: { debug_info: true, defines: [] } });
    expect(argumentsOf({ no_compile_commands: 'on', line_info: 'off' }, 'cuda')).toEqual({ no_compile_commands: true, line_info: false });
    expect(formOf({ options: { debug_info: false, target: 'vulkan1.2' }, no_compile_commands: false }, 'vulkan')).toEqual({ target: 'vulkan1.2' });
  });
  it('leaves out what the API does not have', () => expect(argumentsOf({ block: '64', grid: '4' }, 'vulkan')).toEqual({ grid: '4' }));
  it('keeps the options of the source when one of them is changed', () => {
    expect(argumentsOf({ optimisation: 'none' }, 'vulkan', { defines: ['A'], target: 'vulkan1.1' })).toEqual({
      options: { defines: ['A'], target: 'vulkan1.1', optimisation: 'none' },
    });
  });
  it('gives the form back from the request', () => {
    const form = { defines: 'A\nB=2', optimisation: 'size', push_constants: '0=0000803f', subgroup_size: '8' };
    expect(formOf(argumentsOf(form, 'vulkan', { defines: ['X'] }), 'vulkan')).toEqual(form);
    const cuda = { fast_math: 'on', arch: 'sm_90a', block: '128', dynamic_shared: '48K', attributes: 'a.b=1' };
    expect(formOf(argumentsOf(cuda, 'cuda'), 'cuda')).toEqual(cuda);
  });
});

it('names what will not do', () => {
  expect(problemsOf({ grid: '0', defines: '3X', push_constants: '0=abc', subgroup_size: '1.5' }, 'vulkan')).toEqual({
    grid: expect.stringContaining('counts'), defines: expect.stringContaining('3X'),
    push_constants: expect.stringContaining('0=abc'), subgroup_size: expect.stringContaining('1024'),
  });
  expect(problemsOf({ grid: '8,8,1', defines: 'A=1\nF(x)=x', dynamic_shared: '48K' }, 'cuda')).toEqual({});
});

it('compares forms by what they build', () => {
  expect(sameForm({ defines: ' A \n\n', grid: '' }, { defines: 'A' }, 'vulkan')).toBe(true);
  expect(sameForm({ defines: 'A' }, { defines: 'B' }, 'vulkan')).toBe(false);
  expect(cleaned({ grid: ' 8 ', nonsense: 'x' }, 'vulkan')).toEqual({ grid: '8' });
  expect(hasLaunch({ defines: 'A' }, 'vulkan')).toBe(false);
  expect(hasLaunch({ grid: '8' }, 'vulkan')).toBe(true);
});

it('says options in words', () => expect(formWords({ defines: 'T=16', grid: '8,8' }, 'vulkan')).toBe('T=16 · grid 8,8'));

it('knows the language of a file', () => {
  expect(languageOf('/p/a.comp', 'vulkan')).toBe('glsl');
  expect(languageOf('/p/a.hlsl', 'vulkan')).toBeUndefined();
  expect(languageOf('/p/a.cu', 'cuda')).toBe('cuda');
  expect(languageOf('/p/a.cpp', 'hip')).toBe('hip');
  expect(languageOf('/p/a.ptx', 'cuda')).toBe('ptx');
  expect(languageOf('/p/a.py', 'cuda')).toBeUndefined();
});
