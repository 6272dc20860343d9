// SPDX-License-Identifier: Apache-2.0
// What the conditions form asks for, as arguments of session.run and session.compare; and why an option is not there.
// Limits are those of src/ops/requests.cpp: a wrong value is said here before anything starts.

export type Mode = 'isolated' | 'sustained' | 'repeats';
export type Cache = 'cold' | 'warm' | 'rotating';
export type Level = 'bitwise' | 'numeric' | 'custom';

/** Everything as it was typed: kept while a run works, and over a lost connection. */
export interface Form {
  kind: 'run' | 'compare';
  variant: string;
  /** Which of the bundle's dispatches, where it holds several. */
  dispatch: string;
  candidates: string[];
  against: string;
  mode: Mode;
  iterations: string;
  repeats: string;
  cache: Cache;
  memory: '' | 'device' | 'host';
  flush_mb: string;
  measure_s: string;
  margin: string;
  level: Level;
  types: string;
  tolerances: string;
  checker: string;
  references: string;
  other_captures: boolean;
  validate: boolean;
  seed: string;
  unseen: string;
  flops: string;
  bytes: string;
  counters: string;
  device: string;
  budget_s: string;
  cached: boolean;
  grid: string;
  block: string;
  cluster: string;
  dynamic_shared: string;
  attributes: string;
  spec_constants: string;
  push_constants: string;
  subgroup_size: string;
}

export function defaults(): Form {
  return {
    kind: 'run',
    variant: 'baseline',
    dispatch: '0',
    candidates: [],
    against: 'baseline',
    mode: 'isolated',
    iterations: '20',
    repeats: '5',
    cache: 'cold',
    memory: '',
    flush_mb: '',
    measure_s: '10',
    margin: '0.5',
    level: 'bitwise',
    types: '',
    tolerances: '',
    checker: '',
    references: '',
    other_captures: true,
    validate: true,
    seed: '1',
    unseen: '',
    flops: '',
    bytes: '',
    counters: '',
    device: '',
    budget_s: '',
    cached: false,
    grid: '',
    block: '',
    cluster: '',
    dynamic_shared: '',
    attributes: '',
    spec_constants: '',
    push_constants: '',
    subgroup_size: '',
  };
}

/** Of a form that another version of the page kept. */
export function restored(kept: unknown): Form {
  const form = defaults();
  if (typeof kept !== 'object' || kept === null) return form;
  const target = form as unknown as Record<string, unknown>;
  for (const [name, value] of Object.entries(kept)) {
    const now = target[name];
    if (Array.isArray(now)) {
      if (Array.isArray(value)) target[name] = value.filter((v) => typeof v === 'string');
    } else if (typeof now === typeof value) target[name] = value;
  }
  return form;
}

/** What is known of the place where it would run. */
export interface Place {
  api: string;
  type: string;
  /** null: nobody has asked the device yet. */
  memory_pools: boolean | null;
  counters: boolean | null;
}

/** Field name -> why it cannot be used now. */
export type Reasons = Partial<Record<keyof Form | 'cache.cold' | 'cache.rotating' | 'mode.repeats' | 'level.bitwise', string>>;

export function reasons(form: Form, place: Place): Reasons {
  const why: Reasons = {};
  if (place.api === 'hip')
    why.memory =
      place.type === 'integrated'
        ? 'HIP refuses it: on a unified-memory APU device memory and GTT memory are the same memory, and only the grain of allocation differs.'
        : 'HIP refuses it: memory is placed as it was captured, each region in its own pool and at its address.';
  else if (place.api === 'cuda')
    why.memory = 'CUDA refuses it: memory is placed as it was captured, and another kind would be another program.';
  else if (place.memory_pools === false) why.memory = 'This device has one memory pool: placement cannot differ.';
  if (form.mode !== 'repeats') why.repeats = 'Only with mode repeats.';
  if (form.mode === 'sustained') {
    why['cache.cold'] = 'Launches back to back leave the cache warm.';
    why['cache.rotating'] = 'Rotating caches are for the isolated mode.';
    why.flush_mb = 'Launches go back to back, with no flush between them.';
  } else if (form.mode === 'repeats') why['cache.rotating'] = 'Rotating caches are for the isolated mode.';
  if (why.flush_mb === undefined && form.cache === 'warm') why.flush_mb = 'A warm cache is not flushed.';
  if (why.flush_mb === undefined && form.cache === 'rotating') why.flush_mb = 'Rotating copies take the place of a flush.';
  if (form.kind === 'compare') {
    why['mode.repeats'] = 'A comparison places everything anew many times by itself.';
    why.iterations = 'A comparison takes as many launches as its time allows.';
    why.cached = 'A comparison is always measured.';
    why.validate = 'A comparison always judges first: a wrong variant gets no speed.';
    why.counters = 'Counters are read in a run.';
  } else {
    why.measure_s = 'Of comparisons.';
    why.margin = 'Of comparisons.';
  }
  if (why.counters === undefined && form.cache === 'rotating' && form.mode === 'isolated')
    why.counters = 'Counters are read with one copy of the capture, not with rotating ones.';
  if (why.counters === undefined && place.counters === false)
    why.counters = 'This driver has no hardware counters that Klab can read.';
  if (form.kind === 'run' && !form.validate) {
    const unchecked = 'Results are not checked in this run.';
    why.level = unchecked;
    why.unseen = unchecked;
  }
  if (form.level !== 'numeric') {
    why.tolerances = 'Only with level numeric.';
    why.references = 'Only with level numeric.';
  }
  if (form.level !== 'custom') why.checker = 'Only with level custom.';
  if (place.api === 'vulkan') {
    const cuda = 'CUDA and HIP only.';
    why.block = cuda;
    why.cluster = cuda;
    why.dynamic_shared = cuda;
    why.attributes = cuda;
  } else if (place.api !== '') {
    const vulkan = 'Vulkan only.';
    why.spec_constants = vulkan;
    why.subgroup_size = vulkan;
  }
  return why;
}

/** Keeps only what fits together after one field changed: a mode has its caches. */
export function settled(form: Form): Form {
  const next = { ...form };
  if (next.kind === 'compare' && next.mode === 'repeats') next.mode = 'isolated';
  if (next.mode === 'sustained') next.cache = 'warm';
  if (next.mode === 'repeats' && next.cache === 'rotating') next.cache = 'cold';
  return next;
}

export interface Problem {
  field: keyof Form;
  what: string;
}

export type Arguments = Record<string, unknown>;

/** One word list a line; commas are part of values (grid=3,1,1). */
export function lines(text: string): string[] {
  return text
    .split('\n')
    .map((l) => l.trim())
    .filter((l) => l !== '');
}

/** Words of one line or of several. */
function words(text: string): string[] {
  return text.split(/[\s\n]+/).filter((w) => w !== '');
}

const kLaunchWords: Record<string, readonly [string, boolean]> = {
  grid: ['grid', false],
  block: ['block', false],
  cluster: ['cluster', false],
  'dynamic-shared': ['dynamic_shared', false],
  attribute: ['attributes', true],
  spec: ['spec_constants', true],
  push: ['push_constants', true],
};

/** "grid=3,1,1 push=0=e8030000", as the command line takes it. */
export function unseenLaunch(line: string): Arguments | string {
  const launch: Record<string, string | string[]> = {};
  for (const word of words(line)) {
    const eq = word.indexOf('=');
    const name = eq < 0 ? word : word.slice(0, eq);
    const value = eq < 0 ? '' : word.slice(eq + 1);
    if (value === '') return `${word} is not NAME=VALUE, as in: grid=3,1,1 push=0=e8030000`;
    const known = kLaunchWords[name];
    if (known === undefined) return `a launch has no ${name}: there are ${Object.keys(kLaunchWords).join(', ')}`;
    const [member, many] = known;
    if (many) {
      const list = launch[member];
      launch[member] = Array.isArray(list) ? [...list, value] : [value];
    } else launch[member] = value;
  }
  return launch;
}

interface Checked {
  arguments: Arguments;
  problems: Problem[];
}

/** Empty text is `none`; what is no number, or outside, is a problem. */
function number(
  form: Form,
  field: keyof Form,
  least: number,
  most: number,
  integer: boolean,
  problems: Problem[],
): number | undefined {
  const text = String(form[field]).trim();
  if (text === '') return undefined;
  const value = Number(text);
  if (!Number.isFinite(value) || value < least || value > most || (integer && !Number.isInteger(value))) {
    const range = `from ${least.toLocaleString('en')} to ${most.toLocaleString('en')}`;
    problems.push({ field, what: `${integer ? 'A whole number' : 'A number'} ${range}.` });
    return undefined;
  }
  return value;
}

/** Arguments of session.run or session.compare; none of a field that does not apply. */
export function build(form: Form, place: Place): Checked {
  const problems: Problem[] = [];
  const out: Arguments = {};
  const why = reasons(form, place);
  const open = (field: keyof Form): boolean => why[field] === undefined;
  const put = (name: string, value: unknown): void => {
    if (value !== undefined && value !== '' && !(Array.isArray(value) && value.length === 0)) out[name] = value;
  };

  if (form.kind === 'run') {
    put('variant', form.variant || 'baseline');
    put('iterations', need(form, 'iterations', 1, 10000, true, problems));
    if (form.mode === 'repeats') put('repeats', need(form, 'repeats', 2, 100, true, problems));
    if (open('counters')) put('counters', words(form.counters));
    if (!form.validate) out.validate = false;
    if (form.cached) out.cached = true;
  } else {
    const chosen = form.candidates.filter((c) => c !== '');
    if (chosen.length === 0) problems.push({ field: 'candidates', what: 'Choose a variant to judge.' });
    if (chosen.length > 8) problems.push({ field: 'candidates', what: 'At most 8 variants can be compared together.' });
    if (chosen.includes('baseline')) problems.push({ field: 'candidates', what: 'The baseline is what was captured: choose variants of it.' });
    if (chosen.includes(form.against)) problems.push({ field: 'against', what: 'A variant is not compared with itself.' });
    if (chosen.length > 1) out.variants = chosen;
    else put('variant', chosen[0]);
    put('against', form.against || 'baseline');
    put('measure_s', need(form, 'measure_s', 0, 3600, false, problems));
    const percent = need(form, 'margin', 0.5, 99, false, problems);
    if (percent !== undefined) put('margin', Number((percent / 100).toPrecision(12)));
  }
  if (form.dispatch !== '0' && /^\d+$/.test(form.dispatch)) out.dispatch = Number(form.dispatch);
  out.mode = form.mode;
  out.cache = form.cache;
  if (open('memory')) put('memory', form.memory);
  if (open('flush_mb')) {
    const flush = number(form, 'flush_mb', 0, 65536, true, problems);
    if (flush !== undefined && flush > 0) out.flush_mb = flush;
  }
  if (form.kind === 'compare' || form.validate) {
    out.level = form.level;
    put('types', lines(form.types));
    if (open('tolerances')) put('tolerances', lines(form.tolerances));
    if (open('references')) put('references', lines(form.references));
    if (form.level === 'custom') {
      if (form.checker.trim() === '')
        problems.push({ field: 'checker', what: 'The name of a checker in klab.toml, under [checkers].' });
      else out.checker = [form.checker.trim()];
    }
    if (!form.other_captures) out.other_captures = false;
    const unseen: Arguments[] = [];
    for (const line of lines(form.unseen)) {
      const launch = unseenLaunch(line);
      if (typeof launch === 'string') problems.push({ field: 'unseen', what: launch });
      else unseen.push(launch);
    }
    if (unseen.length > 16) problems.push({ field: 'unseen', what: 'At most 16 launch sizes.' });
    put('unseen_launches', unseen);
  }
  const seed = number(form, 'seed', 1, 4294967295, true, problems);
  if (seed !== undefined) out.seed = seed;
  put('flops', words(form.flops));
  put('bytes', words(form.bytes));
  put('device', form.device.trim());
  put('budget_s', number(form, 'budget_s', 1, 86400, false, problems));
  if (form.kind === 'run') {
    for (const field of ['grid', 'block', 'cluster', 'dynamic_shared'] as const)
      if (open(field)) put(field, form[field].trim());
    for (const field of ['attributes', 'spec_constants', 'push_constants'] as const)
      if (open(field)) put(field, words(form[field]));
    if (open('subgroup_size')) put('subgroup_size', number(form, 'subgroup_size', 1, 1024, true, problems));
  }
  return { arguments: out, problems };
}

function need(
  form: Form,
  field: keyof Form,
  least: number,
  most: number,
  integer: boolean,
  problems: Problem[],
): number | undefined {
  if (String(form[field]).trim() === '') {
    problems.push({ field, what: 'A number is needed.' });
    return undefined;
  }
  return number(form, field, least, most, integer, problems);
}

/** One line, in the words of the command line. */
export function conditionsLine(c: {
  mode?: string;
  iterations?: number;
  cache?: string;
  repeats?: number | undefined;
  memory?: string | undefined;
  flush_mb?: number | undefined;
}): string {
  let text = `${c.mode ?? 'isolated'}, ${c.iterations ?? 0} iterations, cache ${c.cache ?? 'cold'}`;
  if (c.mode === 'repeats' && c.repeats !== undefined) text += `, ${c.repeats} replays with fresh allocations`;
  if (c.memory) text += `, memory ${c.memory}`;
  if (c.flush_mb) text += `, ${c.flush_mb} MiB flushed before each launch`;
  return text;
}
