// SPDX-License-Identifier: Apache-2.0
// What a kernel needs (registers, memory, instructions, occupancy), read out of the answers of build, run and compare,
// and its difference to the baseline. Members that are not known here are left out, never guessed.

type Json = Readonly<Record<string, unknown>>;

export interface Resource {
  key: string;
  group: 'Registers and memory' | 'Occupancy' | 'Instructions' | 'Interface' | 'As the driver names it';
  label: string;
  unit: '' | 'bytes' | 'share';
  value: number | string;
  /** True where more of it is worse whatever the kernel: spills and scratch. */
  lessIsBetter?: boolean;
}

export interface ResourceRow {
  key: string;
  group: Resource['group'];
  label: string;
  unit: Resource['unit'];
  baseline: Resource['value'] | undefined;
  variant: Resource['value'] | undefined;
  /** "+8 (+25 %)", "same", "128 → 64"; empty when one side is unknown. */
  difference: string;
  tone: 'same' | 'changed' | 'better' | 'worse' | 'unknown';
}

interface Known {
  from: string;
  key: string;
  label: string;
  group: Resource['group'];
  unit?: Resource['unit'];
  lessIsBetter?: boolean;
  /** Left out when 0: most kernels have none. */
  dropZero?: boolean;
}

const memory = 'Registers and memory';

// Static facts of a CUDA or HIP kernel.
const kKernel: readonly Known[] = [
  { from: 'registers', key: 'registers', label: 'Registers per thread', group: memory },
  { from: 'scalar_registers', key: 'scalar_registers', label: 'Scalar registers', group: memory },
  { from: 'accumulation_registers', key: 'accumulation_registers', label: 'Accumulation registers', group: memory },
  { from: 'max_registers', key: 'max_registers', label: 'Registers allowed', group: memory },
  { from: 'vector_spills', key: 'vector_spills', label: 'Spilled vector registers', group: memory, lessIsBetter: true },
  { from: 'scalar_spills', key: 'scalar_spills', label: 'Spilled scalar registers', group: memory, lessIsBetter: true },
  { from: 'spill_store_bytes', key: 'spill_store_bytes', label: 'Spill stores per thread', group: memory, unit: 'bytes', lessIsBetter: true },
  { from: 'spill_load_bytes', key: 'spill_load_bytes', label: 'Spill loads per thread', group: memory, unit: 'bytes', lessIsBetter: true },
  { from: 'local_bytes', key: 'local_bytes', label: 'Stack per thread', group: memory, unit: 'bytes', lessIsBetter: true },
  { from: 'shared_bytes', key: 'shared_bytes', label: 'Shared memory (static)', group: memory, unit: 'bytes' },
  { from: 'constant_bytes', key: 'constant_bytes', label: 'Constant bank', group: memory, unit: 'bytes', dropZero: true },
  { from: 'code_bytes', key: 'code_bytes', label: 'Machine code', group: 'Instructions', unit: 'bytes' },
  { from: 'barriers', key: 'barriers', label: 'Named barriers', group: 'Instructions', dropZero: true },
  { from: 'wavefront_size', key: 'subgroup_size', label: 'Wavefront size', group: 'Interface' },
  { from: 'parameter_bytes', key: 'parameter_bytes', label: 'Parameters', group: 'Interface', unit: 'bytes' },
  { from: 'max_block', key: 'max_block', label: 'Launch bounds', group: 'Interface', dropZero: true },
  { from: 'required_block', key: 'required_block', label: 'Required block', group: 'Interface', dropZero: true },
  { from: 'cluster', key: 'cluster', label: 'Cluster', group: 'Interface', dropZero: true },
];

// Static facts of a shader.
const kReflection: readonly Known[] = [
  { from: 'instructions', key: 'instructions', label: 'SPIR-V instructions', group: 'Instructions' },
  { from: 'matrix_instructions', key: 'matrix_instructions', label: 'Matrix instructions', group: 'Instructions' },
  { from: 'barrier_instructions', key: 'barrier_instructions', label: 'Barriers', group: 'Instructions' },
  { from: 'atomic_instructions', key: 'atomic_instructions', label: 'Atomics', group: 'Instructions' },
  { from: 'float_atomics', key: 'float_atomics', label: 'Floating-point atomics', group: 'Instructions', dropZero: true },
  { from: 'shared_bytes', key: 'shared_bytes', label: 'Shared memory', group: memory, unit: 'bytes' },
  { from: 'push_constant_bytes', key: 'push_constant_bytes', label: 'Push constants', group: 'Interface', unit: 'bytes' },
  { from: 'block', key: 'block', label: 'Block', group: 'Interface' },
  { from: 'version', key: 'version', label: 'SPIR-V version', group: 'Interface' },
  { from: 'capabilities', key: 'capabilities', label: 'Capabilities', group: 'Interface' },
];

// What the driver says of the pipeline or function that ran.
const kDriver: readonly Known[] = [
  { from: 'vector_registers', key: 'driver_vector_registers', label: 'Registers (driver)', group: memory },
  { from: 'scalar_registers', key: 'driver_scalar_registers', label: 'Scalar registers (driver)', group: memory },
  { from: 'spilled_registers', key: 'driver_spilled_registers', label: 'Spilled registers (driver)', group: memory, lessIsBetter: true },
  { from: 'scratch_bytes', key: 'driver_scratch_bytes', label: 'Scratch (driver)', group: memory, unit: 'bytes', lessIsBetter: true },
  { from: 'shared_bytes', key: 'driver_shared_bytes', label: 'Shared memory (driver)', group: memory, unit: 'bytes' },
  { from: 'code_bytes', key: 'driver_code_bytes', label: 'Machine code (driver)', group: 'Instructions', unit: 'bytes' },
  { from: 'subgroup_size', key: 'driver_subgroup_size', label: 'Subgroup size (driver)', group: 'Interface' },
  { from: 'occupancy', key: 'driver_occupancy', label: 'Occupancy (driver)', group: 'Occupancy', unit: 'share' },
];

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function take(from: unknown, known: readonly Known[], into: Resource[]): void {
  if (!isObject(from)) return;
  for (const k of known) {
    const raw = from[k.from];
    const value = Array.isArray(raw)
      ? raw.every((x) => typeof x === 'number') ? raw.join(' × ') : raw.map(String).join(', ')
      : raw;
    if (typeof value !== 'number' && typeof value !== 'string') continue;
    if (k.dropZero && (value === 0 || /^0( × 0)*$/.test(String(value)))) continue;
    if (value === '') continue;
    into.push({ key: k.key, group: k.group, label: k.label, unit: k.unit ?? '', value, ...(k.lessIsBetter ? { lessIsBetter: true } : {}) });
  }
}

function takeInstructions(kernel: unknown, into: Resource[]): void {
  const mix = isObject(kernel) ? kernel.instructions : undefined;
  if (!isObject(mix)) return;
  const put = (key: string, label: string, value: unknown) => {
    if (typeof value === 'number') into.push({ key, group: 'Instructions', label, unit: '', value });
  };
  put('instructions', 'Instructions', mix.total);
  put('matrix_instructions', 'Matrix instructions', mix.matrix_total);
  if (isObject(mix.groups)) for (const [name, n] of Object.entries(mix.groups)) if (name !== 'matrix') put(`group:${name}`, name.replaceAll('_', ' '), n);
  if (isObject(mix.matrix)) for (const [name, n] of Object.entries(mix.matrix)) put(`matrix:${name}`, name, n);
}

function takeOccupancy(occupancy: unknown, into: Resource[]): void {
  if (!isObject(occupancy)) return;
  const put = (key: string, label: string, unit: Resource['unit'], value: unknown) => {
    if (typeof value === 'number' || (typeof value === 'string' && value !== '')) into.push({ key, group: 'Occupancy', label, unit, value });
  };
  put('occupancy', 'Occupancy (theoretical)', 'share', occupancy.fraction);
  put('occupancy_blocks', 'Blocks on a multiprocessor', '', occupancy.blocks);
  if (typeof occupancy.warps === 'number') put('occupancy_warps', 'Warps on a multiprocessor', '', `${occupancy.warps} of ${String(occupancy.max_warps)}`);
  put('occupancy_limit', 'Limited by', '', occupancy.limited_by);
}

/** Of a run's answer: `resources` has `code` (a kernel's facts, or a shader's) and `driver`. */
export function ofRun(answer: Json): Resource[] {
  const out: Resource[] = [];
  const resources = isObject(answer.resources) ? answer.resources : {};
  takeCode(resources.code, out);
  takeDriver(resources.driver, out);
  return out;
}

/** Of a side of a comparison's answer: the driver's word only. */
export function ofComparison(answer: Json, label: string): Resource[] {
  const out: Resource[] = [];
  const sides = Array.isArray(answer.variants) ? (answer.variants as unknown[]) : [];
  const side = sides.find((s): s is Json => isObject(s) && s.label === label);
  takeDriver(side?.resources, out);
  return out;
}

/** Of a build's answer. CUDA and HIP builds tell the captured kernel's figures as well. */
export function ofBuild(answer: Json): { variant: Resource[]; baseline: Resource[] } {
  const variant: Resource[] = [];
  const baseline: Resource[] = [];
  if (isObject(answer.cuda)) {
    takeCode(answer.cuda.kernel, variant);
    takeOccupancy(answer.cuda.occupancy, variant);
    takeCode(answer.cuda.baseline, baseline);
    takeOccupancy(answer.cuda.baseline_occupancy, baseline);
  } else {
    takeCode(answer.reflection, variant);
  }
  return { variant, baseline };
}

function takeCode(code: unknown, into: Resource[]): void {
  if (!isObject(code)) return;
  if ('code_hash' in code || 'registers' in code) {
    take(code, kKernel, into);
    takeInstructions(code, into);
  } else {
    take(code, kReflection, into);
  }
}

function takeDriver(driver: unknown, into: Resource[]): void {
  if (!isObject(driver)) return;
  take(driver, kDriver, into);
  if (!Array.isArray(driver.driver)) return;
  for (const s of driver.driver as unknown[]) {
    if (!isObject(s) || typeof s.name !== 'string') continue;
    const text = String(s.value);
    const number = text.trim() === '' ? NaN : Number(text);
    into.push({ key: `driver:${s.name}`, group: 'As the driver names it', label: s.name, unit: '', value: Number.isFinite(number) ? number : text });
  }
}

/** The first list's word counts where both have it. */
export function merged(...lists: readonly (readonly Resource[])[]): Resource[] {
  const seen = new Map<string, Resource>();
  for (const list of lists) for (const r of list) if (!seen.has(r.key)) seen.set(r.key, r);
  return [...seen.values()];
}

const kOrder: readonly Resource['group'][] = ['Registers and memory', 'Occupancy', 'Instructions', 'Interface', 'As the driver names it'];

export function compareResources(baseline: readonly Resource[], variant: readonly Resource[]): ResourceRow[] {
  const b = new Map(baseline.map((r) => [r.key, r]));
  const v = new Map(variant.map((r) => [r.key, r]));
  const keys = [...new Set([...b.keys(), ...v.keys()])];
  const rows = keys.map((key): ResourceRow => {
    const one = (v.get(key) ?? b.get(key))!;
    const was = b.get(key)?.value;
    const is = v.get(key)?.value;
    return { key, group: one.group, label: one.label, unit: one.unit, baseline: was, variant: is, ...difference(was, is, one) };
  });
  return rows.sort((x, y) => kOrder.indexOf(x.group) - kOrder.indexOf(y.group));
}

function difference(was: Resource['value'] | undefined, is: Resource['value'] | undefined, r: Resource): Pick<ResourceRow, 'difference' | 'tone'> {
  if (was === undefined || is === undefined) return { difference: '', tone: 'unknown' };
  if (was === is) return { difference: 'same', tone: 'same' };
  if (typeof was !== 'number' || typeof is !== 'number') return { difference: 'differs', tone: 'changed' };
  const sign = is > was ? '+' : '−';
  const by = Math.abs(is - was);
  const share = was !== 0 && r.unit !== 'share' ? ` (${sign}${percent(by / was)})` : '';
  const amount = r.unit === 'share' ? `${(by * 100).toFixed(1)} points` : r.unit === 'bytes' ? `${by} B` : `${Number(by.toPrecision(6))}`;
  return { difference: `${sign}${amount}${share}`, tone: r.lessIsBetter ? (is < was ? 'better' : 'worse') : 'changed' };
}

function percent(share: number): string {
  const p = share * 100;
  return `${p >= 10 ? p.toFixed(0) : p.toFixed(1)} %`;
}
