// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { compareResources, merged, ofBuild, ofComparison, ofRun } from './resources';

// As klab's session.run and session.build answer on a CPU Vulkan driver, shortened.
const run = {
  resources: {
    code: { instructions: 41, matrix_instructions: 0, atomic_instructions: 0, barrier_instructions: 0, float_atomics: 0, shared_bytes: 0,
      push_constant_bytes: 4, block: [16, 16, 1], capabilities: ['Shader'], version: '1.5', bindings: [{ set: 0 }] },
    driver: { shared_bytes: 0, subgroup_size: 8, driver: [{ name: 'Spill Count', value: '3' }, { name: 'Mode', value: 'wave32' }] },
  },
};
const cudaKernel = (registers: number, spills: number) => ({
  name: 'k', code_hash: 'x', registers, local_bytes: 0, shared_bytes: 4096, spill_store_bytes: spills, max_block: [0, 0, 0], constant_bytes: 0,
  instructions: { total: 100 + registers, matrix_total: 4, groups: { fp32: 30, global_load: 8, matrix: 4 }, matrix: { 'HMMA.16816.F32': 4 } },
});

describe('a shader', () => {
  const rows = compareResources(ofRun(run), ofBuild({ reflection: { ...run.resources.code, instructions: 82, barrier_instructions: 2, shared_bytes: 2048 } }).variant);
  const row = (key: string) => rows.find((r) => r.key === key);
  it('says differences with sign and share', () => {
    expect(row('instructions')).toMatchObject({ baseline: 41, variant: 82, difference: '+41 (+100 %)', tone: 'changed' });
    expect(row('barrier_instructions')?.difference).toBe('+2');
    expect(row('shared_bytes')).toMatchObject({ difference: '+2048 B', unit: 'bytes' });
    expect(row('push_constant_bytes')).toMatchObject({ difference: 'same', tone: 'same' });
  });
  it('claims nothing where only one side is known', () => {
    expect(row('driver_subgroup_size')).toMatchObject({ baseline: 8, variant: undefined, difference: '', tone: 'unknown' });
  });
  it('keeps what the driver names itself, numbers as numbers', () => {
    expect(row('driver:Spill Count')?.baseline).toBe(3);
    expect(row('driver:Mode')?.baseline).toBe('wave32');
    expect(rows[rows.length - 1]?.group).toBe('As the driver names it');
  });
  it('leaves out what a kernel has none of', () => expect(row('float_atomics')).toBeUndefined());
});

describe('a CUDA kernel', () => {
  const built = ofBuild({
    cuda: {
      kernel: cudaKernel(40, 0), baseline: cudaKernel(64, 16),
      occupancy: { blocks: 6, warps: 48, max_warps: 64, fraction: 0.75, limited_by: 'registers' },
      baseline_occupancy: { blocks: 4, warps: 32, max_warps: 64, fraction: 0.5, limited_by: 'shared memory' },
    },
  });
  const rows = compareResources(built.baseline, built.variant);
  const row = (key: string) => rows.find((r) => r.key === key);
  it('has both sides from the build alone', () => {
    expect(row('registers')).toMatchObject({ baseline: 64, variant: 40, difference: '−24 (−38 %)', tone: 'changed' });
    expect(row('instructions')).toMatchObject({ baseline: 164, variant: 140 });
  });
  it('calls fewer spills better, and only what is worse for any kernel worse', () => {
    expect(row('spill_store_bytes')).toMatchObject({ difference: '−16 B (−100 %)', tone: 'better' });
    expect(row('shared_bytes')?.tone).toBe('same');
  });
  it('names the limiter of occupancy', () => {
    expect(row('occupancy')).toMatchObject({ unit: 'share', difference: '+25.0 points' });
    expect(row('occupancy_limit')).toMatchObject({ baseline: 'shared memory', variant: 'registers', difference: 'differs' });
    expect(row('occupancy_warps')?.variant).toBe('48 of 64');
  });
  it('lists instruction groups and matrix instructions', () => {
    expect(row('group:fp32')?.difference).toBe('same');
    expect(row('matrix:HMMA.16816.F32')?.variant).toBe(4);
    expect(row('group:matrix')).toBeUndefined();
  });
  it('drops all-zero launch bounds', () => expect(row('max_block')).toBeUndefined());
});

it('takes the driver’s word out of a comparison, by label', () => {
  const answer = { variants: [{ label: 'baseline', resources: { vector_registers: 32 } }, { label: 'fast', resources: { vector_registers: 24 } }] };
  expect(ofComparison(answer, 'fast')).toMatchObject([{ key: 'driver_vector_registers', value: 24 }]);
  expect(ofComparison(answer, 'gone')).toEqual([]);
  expect(ofComparison({}, 'fast')).toEqual([]);
});

it('lets the first list win', () => {
  const a = ofRun(run);
  const b = ofBuild({ reflection: { instructions: 7 } }).variant;
  expect(merged(b, a).find((r) => r.key === 'instructions')?.value).toBe(7);
  expect(merged(a, b).find((r) => r.key === 'instructions')?.value).toBe(41);
});
