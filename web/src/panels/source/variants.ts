// SPDX-License-Identifier: Apache-2.0
// The session's variants as a tree: variants of one text with other options hang below the first of them.
import { formOf, formWords, type Api, type BuildForm } from './options';

type Json = Readonly<Record<string, unknown>>;

export interface VariantLike {
  id: string;
  name: string;
  source_hash?: string | undefined;
  made_at?: string | undefined;
  verdict?: { correctness: string; speed: string; ratio?: number | undefined; reason?: string | undefined; against?: string | undefined } | undefined;
}

export interface EventLike {
  kind: string;
  at: string;
  detail: unknown;
}

export interface Origin {
  /** "cli", "mcp", "page"; empty when the events of the build are not known. */
  by: string;
  job: number;
  form: BuildForm | undefined;
}

export interface VariantNode<V extends VariantLike> {
  variant: V;
  depth: 0 | 1;
  /** Options of the build, in words; of a child: what sets it apart. */
  words: string;
  origin: Origin | undefined;
}

/** Who built which variant, by which job, with which form. */
export function originsOf(events: readonly EventLike[], api: Api): Map<string, Origin> {
  const requests = new Map<number, Json>();
  const origins = new Map<string, Origin>();
  for (const e of events) {
    const d = (e.detail ?? {}) as Json;
    if (e.kind === 'begin' && d.kind === 'build' && typeof d.job === 'number') requests.set(d.job, (d.request ?? {}) as Json);
    if (e.kind !== 'build' || typeof d.variant !== 'string' || typeof d.job !== 'number') continue;
    if (origins.has(d.variant)) continue; // built again: the first made it
    const request = requests.get(d.job);
    origins.set(d.variant, { by: typeof d.by === 'string' ? d.by : '', job: d.job, form: request ? formOf(request, api) : undefined });
  }
  return origins;
}

export function treeOf<V extends VariantLike>(variants: readonly V[], origins: ReadonlyMap<string, Origin>, api: Api): VariantNode<V>[] {
  const heads = new Map<string, V[]>();
  for (const v of variants) {
    const key = v.source_hash ? v.source_hash : `launch:${v.id}`;
    const list = heads.get(key);
    if (list) list.push(v);
    else heads.set(key, [v]);
  }
  const nodes: VariantNode<V>[] = [];
  for (const group of heads.values())
    group.forEach((variant, i) => {
      const origin = origins.get(variant.id);
      nodes.push({ variant, depth: i === 0 ? 0 : 1, words: origin?.form ? formWords(origin.form, api) : '', origin });
    });
  return nodes;
}

export interface VerdictWords {
  text: string;
  tone: 'good' | 'bad' | 'neutral' | 'unknown';
  /** A sign besides colour. */
  sign: string;
}

/** One line for a list. Speed is only said of a correct variant. */
export function verdictWords(verdict: VariantLike['verdict']): VerdictWords {
  if (!verdict) return { text: 'not compared', tone: 'unknown', sign: '·' };
  if (verdict.correctness === 'incorrect') return { text: 'incorrect', tone: 'bad', sign: '✗' };
  if (verdict.correctness !== 'correct') return { text: verdict.correctness.replaceAll('_', ' '), tone: 'unknown', sign: '?' };
  const ratio = typeof verdict.ratio === 'number' && verdict.ratio > 0 ? ` (time ×${verdict.ratio.toFixed(3)})` : '';
  switch (verdict.speed) {
    case 'faster': return { text: `faster${ratio}`, tone: 'good', sign: '▲' };
    case 'slower': return { text: `slower${ratio}`, tone: 'bad', sign: '▼' };
    case 'none': return { text: 'correct, speed not measured', tone: 'neutral', sign: '✓' };
    default: return { text: `correct, ${verdict.speed.replaceAll('_', ' ')}`, tone: 'neutral', sign: '✓' };
  }
}

const kPeople: Record<string, string> = { cli: 'command line', mcp: 'agent (MCP)', page: 'page' };
export function whoWords(by: string): string {
  return kPeople[by] ?? by;
}
