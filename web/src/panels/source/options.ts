// SPDX-License-Identifier: Apache-2.0
// Build options of a variant: which there are for each API, a form's texts, and session.build's arguments.

export type Api = 'vulkan' | 'cuda' | 'hip';

export interface FieldSpec {
  key: string;
  label: string;
  hint: string;
  kind: 'text' | 'lines' | 'number' | 'choice';
  apis: readonly Api[];
  choices?: readonly { value: string; label: string }[];
  group: 'compiler' | 'launch';
  /** Empty when the text will do. */
  problem?: (text: string) => string;
}

/** Texts by key; a key that is missing is as the selected source has it. */
export type BuildForm = Record<string, string>;

const all: readonly Api[] = ['vulkan', 'cuda', 'hip'];
const onCuda: readonly Api[] = ['cuda', 'hip'];

const each = (pattern: RegExp, say: string) => (text: string) => {
  const bad = linesOf(text).find((line) => !pattern.test(line));
  return bad === undefined ? '' : `${bad}: ${say}`;
};
const dims = (text: string) =>
  /^[1-9]\d*([,x][1-9]\d*){0,2}$/.test(text.trim()) ? '' : 'one to three counts: 64 or 8,8,1';
const whole = (least: number, most: number) => (text: string) => {
  const n = Number(text);
  return Number.isInteger(n) && n >= least && n <= most ? '' : `a whole number from ${least} to ${most}`;
};

const onOff = [{ value: 'on', label: 'on' }, { value: 'off', label: 'off' }];
const kBooleans = new Set(['fast_math', 'line_info', 'debug_info', 'no_compile_commands']);
// Members of `options`, not of the request itself.
const kOfOptions = new Set(['optimisation', 'target', 'debug_info']);

export const kFields: readonly FieldSpec[] = [
  {
    key: 'defines', label: 'Defines', hint: 'NAME or NAME=VALUE, one a line', kind: 'lines', apis: all, group: 'compiler',
    problem: each(/^[A-Za-z_]\w*(\(.*\))?(=.*)?$/, 'not NAME or NAME=VALUE'),
  },
  { key: 'include_folders', label: 'Include folders', hint: 'absolute paths below the session’s folders, one a line', kind: 'lines', apis: all, group: 'compiler',
    problem: each(/^\//, 'not an absolute path') },
  {
    key: 'optimisation', label: 'Optimisation', hint: 'of SPIR-V; the driver optimises on its own', kind: 'choice', apis: ['vulkan'], group: 'compiler',
    choices: [{ value: 'performance', label: 'performance' }, { value: 'size', label: 'size' }, { value: 'none', label: 'none' }],
  },
  {
    key: 'target', label: 'Target', hint: 'Vulkan version of the SPIR-V', kind: 'choice', apis: ['vulkan'], group: 'compiler',
    choices: ['vulkan1.0', 'vulkan1.1', 'vulkan1.2', 'vulkan1.3'].map((v) => ({ value: v, label: v })),
  },
  {
    key: 'compiler', label: 'Compiler', hint: 'auto: NVRTC where it can', kind: 'choice', apis: ['cuda'], group: 'compiler',
    choices: [{ value: 'auto', label: 'auto' }, { value: 'nvrtc', label: 'NVRTC' }, { value: 'nvcc', label: 'nvcc' }],
  },
  {
    key: 'compiler', label: 'Compiler', hint: 'auto: hipcc where there is one', kind: 'choice', apis: ['hip'], group: 'compiler',
    choices: [{ value: 'auto', label: 'auto' }, { value: 'hipcc', label: 'hipcc' }, { value: 'hiprtc', label: 'hiprtc' }],
  },
  { key: 'debug_info', label: 'Debug information', hint: 'names and lines are kept in the SPIR-V', kind: 'choice', apis: ['vulkan'], group: 'compiler', choices: onOff },
  { key: 'arch', label: 'Architecture', hint: 'sm_90a or gfx90a; empty: the captured device’s', kind: 'text', apis: onCuda, group: 'compiler',
    problem: (t) => (/^(sm_\d+[a-z]?|compute_\d+[a-z]?|gfx[0-9a-f]+(:[\w+-]+)*)$/.test(t.trim()) ? '' : 'sm_90a, or gfx90a:xnack-') },
  { key: 'standard', label: 'C++ standard', hint: 'c++17', kind: 'text', apis: onCuda, group: 'compiler',
    problem: (t) => (/^(c|gnu)\+\+\d\w$/.test(t.trim()) ? '' : 'c++17, for example') },
  {
    key: 'fast_math', label: 'Fast math', hint: 'less exact arithmetic; the check may find the results different', kind: 'choice', apis: onCuda, group: 'compiler',
    choices: onOff,
  },
  { key: 'line_info', label: 'Line information', hint: 'kept by default; costs no time', kind: 'choice', apis: ['cuda'], group: 'compiler', choices: onOff },
  { key: 'max_registers', label: 'Most registers', hint: 'of a thread', kind: 'number', apis: ['cuda'], group: 'compiler', problem: whole(1, 255) },
  { key: 'kernel', label: 'Kernel', hint: 'the one in the source that takes the captured one’s place: saxpy<float>', kind: 'text', apis: onCuda, group: 'compiler' },
  { key: 'compile_commands', label: 'compile_commands.json', hint: 'with the project’s options; looked for above the source', kind: 'text', apis: onCuda, group: 'compiler',
    problem: (t) => (t.trim().startsWith('/') ? '' : 'not an absolute path') },
  { key: 'no_compile_commands', label: 'Project’s options', hint: 'of the compile_commands.json that is found', kind: 'choice', apis: onCuda, group: 'compiler',
    choices: [{ value: 'on', label: 'leave them out' }] },
  { key: 'grid', label: 'Grid', hint: 'workgroups (blocks): X or X,Y or X,Y,Z', kind: 'text', apis: all, group: 'launch', problem: dims },
  { key: 'block', label: 'Block', hint: 'threads: X or X,Y or X,Y,Z', kind: 'text', apis: onCuda, group: 'launch', problem: dims },
  { key: 'cluster', label: 'Cluster', hint: 'blocks: X or X,Y or X,Y,Z', kind: 'text', apis: ['cuda'], group: 'launch', problem: dims },
  { key: 'dynamic_shared', label: 'Dynamic shared memory', hint: 'bytes, or 48K', kind: 'text', apis: onCuda, group: 'launch',
    problem: (t) => (/^\d+[Kk]?$/.test(t.trim()) ? '' : 'bytes, or 48K') },
  { key: 'attributes', label: 'Launch attributes', hint: 'NAME=INTEGER, one a line', kind: 'lines', apis: ['cuda'], group: 'launch',
    problem: each(/^[\w.]+=-?\d+$/, 'not NAME=INTEGER') },
  { key: 'spec_constants', label: 'Specialization constants', hint: 'ID=VALUE, one a line', kind: 'lines', apis: ['vulkan'], group: 'launch',
    problem: each(/^\d+=\S+$/, 'not ID=VALUE') },
  { key: 'push_constants', label: 'Push constants', hint: 'OFFSET=HEX bytes in memory order, one a line: 0=0000803f is the float 1.0', kind: 'lines', apis: ['vulkan'], group: 'launch',
    problem: each(/^\d+=([0-9a-fA-F]{2})+$/, 'not OFFSET=HEX') },
  { key: 'subgroup_size', label: 'Subgroup size', hint: 'required of the driver', kind: 'number', apis: ['vulkan'], group: 'launch', problem: whole(1, 1024) },
];

export function fieldsOf(api: Api): FieldSpec[] {
  return kFields.filter((f) => f.apis.includes(api));
}

export function emptyForm(): BuildForm {
  return {};
}

export function linesOf(text: string): string[] {
  return text.split('\n').map((l) => l.trim()).filter((l) => l !== '');
}

/** Texts of fields that are filled in and of this API: two forms that build the same are equal. */
export function cleaned(form: BuildForm, api: Api): BuildForm {
  const out: BuildForm = {};
  for (const f of fieldsOf(api)) {
    const text = f.kind === 'lines' ? linesOf(form[f.key] ?? '').join('\n') : (form[f.key] ?? '').trim();
    if (text !== '') out[f.key] = text;
  }
  return out;
}

export function sameForm(a: BuildForm, b: BuildForm, api: Api): boolean {
  return JSON.stringify(cleaned(a, api)) === JSON.stringify(cleaned(b, api));
}

/** Only a launch override: a variant without a source of its own. */
export function hasLaunch(form: BuildForm, api: Api): boolean {
  const keys = Object.keys(cleaned(form, api));
  return kFields.some((f) => f.group === 'launch' && keys.includes(f.key));
}

export function problemsOf(form: BuildForm, api: Api): Record<string, string> {
  const problems: Record<string, string> = {};
  for (const f of fieldsOf(api)) {
    const text = (form[f.key] ?? '').trim();
    const problem = text === '' ? '' : (f.problem?.(text) ?? '');
    if (problem !== '') problems[f.key] = problem;
  }
  return problems;
}

/**
 * Members of session.build besides session, name and the source. `base`: compile options of the selected source, on
 * top of which optimisation and target go; they replace the server's own as a whole.
 */
export function argumentsOf(form: BuildForm, api: Api, base: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  const texts = cleaned(form, api);
  const options: Record<string, unknown> = {};
  for (const f of fieldsOf(api)) {
    const text = texts[f.key];
    if (text === undefined) continue;
    const into = kOfOptions.has(f.key) ? options : out;
    if (kBooleans.has(f.key)) into[f.key] = text === 'on';
    else if (kOfOptions.has(f.key)) into[f.key] = text;
    else if (f.kind === 'lines') out[f.key] = linesOf(text);
    else if (f.kind === 'number') out[f.key] = Number(text);
    else out[f.key] = text;
  }
  if (Object.keys(options).length > 0) out.options = { ...base, ...options };
  return out;
}

/** The form that a build was asked with, from its recorded request. */
export function formOf(request: Readonly<Record<string, unknown>>, api: Api): BuildForm {
  const form: BuildForm = {};
  const options = (request.options ?? {}) as Record<string, unknown>;
  for (const f of fieldsOf(api)) {
    const value = kOfOptions.has(f.key) ? options[f.key] : request[f.key];
    if (value === undefined || value === null || value === '') continue;
    if (f.key === 'debug_info' && value === false) continue; // stands in every set of options
    if (f.key === 'no_compile_commands' && value === false) continue;
    if (kBooleans.has(f.key)) form[f.key] = value === true ? 'on' : 'off';
    else if (Array.isArray(value)) form[f.key] = value.join('\n');
    else form[f.key] = String(value);
  }
  return cleaned(form, api);
}

/** In a few words what a variant was built with beyond its text: "TILE=16 · grid 8,8". */
export function formWords(form: BuildForm, api: Api): string {
  const texts = cleaned(form, api);
  return fieldsOf(api)
    .filter((f) => texts[f.key] !== undefined)
    .map((f) => {
      const text = linesOf(texts[f.key]!).join(' ');
      return f.key === 'defines' ? text : `${f.label.toLowerCase()} ${text}`;
    })
    .join(' · ');
}

const kLanguages: Record<string, string> = { comp: 'glsl', glsl: 'glsl', spvasm: 'spirv', cu: 'cuda', cuh: 'cuda', ptx: 'ptx', hip: 'hip' };

/** `language` of session.build for the text of `file`; undefined: this kind of file is not built from a text. */
export function languageOf(file: string, api: Api): string | undefined {
  const ending = /\.(\w+)$/.exec(file)?.[1]?.toLowerCase() ?? '';
  const known = kLanguages[ending];
  if (api === 'vulkan') return known === 'glsl' || known === 'spirv' ? known : undefined;
  if (known === 'ptx') return api === 'cuda' ? 'ptx' : undefined;
  if (known === 'glsl' || known === 'spirv') return undefined;
  return /^(cu|cuh|hip|c|cc|cpp|cxx|h|hpp|inc)$/.test(ending) ? api : undefined;
}

/** Ending of the file that the server keeps a text of `language` under; its messages name that file. */
export function endingOf(language: string): string {
  return { glsl: '.comp', spirv: '.spvasm', cuda: '.cu', hip: '.hip', ptx: '.ptx' }[language] ?? '';
}
