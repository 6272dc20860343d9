// SPDX-License-Identifier: Apache-2.0
// One run in full, whichever of its two records is there: the answer of its job (with delta and roofline), or what
// the worker said.
import type {
  Conditions,
  Delta,
  Device,
  Roofline,
  Run,
  RunResources,
  RunRow,
  Summary,
  Throughput,
  Validation,
  WorkerAnswer,
} from '../../api/types';
import { summarise } from '../../charts/stats';

export interface Detail {
  run: number;
  job: number | null;
  variant: string;
  label: string;
  outcome: string;
  device: Device | null;
  asked: Conditions | null;
  ran: Conditions;
  correctness: string;
  validation: Validation | null;
  samples: number[];
  averages: number[];
  summary: Summary | null;
  delta: Delta | null;
  roofline: Roofline | null;
  throughput: (Partial<Throughput> & { why?: string }) | null;
  counters: unknown;
  resources: RunResources | null;
  code_hash: string;
  notes: string[];
  address_mode: string;
  address_by: string;
  rewritten_words: number;
  captured_bytes: number;
  restored_bytes: number;
  written_bytes: number;
  wall_ms: number;
  error: { what: string; hint?: string } | null;
}

function summaryOf(values: readonly number[]): Summary | null {
  if (values.length === 0) return null;
  const s = summarise(values);
  return {
    count: s.count,
    median_ns: s.median,
    q1_ns: s.q1,
    q3_ns: s.q3,
    min_ns: s.min,
    max_ns: s.max,
    mean_ns: values.reduce((sum, v) => sum + v, 0) / values.length,
    spread: s.median > 0 ? (s.q3 - s.q1) / s.median : 0,
  };
}

export function ofRun(row: RunRow, run: Run, job: number | null): Detail {
  return {
    run: row.run,
    job,
    variant: row.variant,
    label: run.variant,
    outcome: run.outcome,
    device: run.device,
    asked: run.asked,
    ran: run.ran,
    correctness: run.validation.correctness,
    validation: run.validation,
    samples: run.samples_ns,
    averages: run.replay_averages_ns ?? [],
    summary: run.summary,
    delta: run.delta ?? null,
    roofline: run.roofline ?? null,
    throughput: run.throughput ?? null,
    counters: run.counters,
    resources: run.resources,
    code_hash: run.code_hash,
    notes: run.notes,
    address_mode: run.address_mode,
    address_by: run.address_by,
    rewritten_words: run.rewritten_words,
    captured_bytes: run.captured_bytes,
    restored_bytes: run.restored_bytes_per_iteration,
    written_bytes: run.written_bytes,
    wall_ms: run.wall_ms,
    error: null,
  };
}

export function ofAnswer(row: RunRow, answer: WorkerAnswer | undefined): Detail {
  const v = answer?.variants?.[0];
  const repeats = answer?.ran?.mode === 'repeats' && (v?.replay_averages_ns?.length ?? 0) > 0;
  const timed = row.outcome === 'ok' ? (repeats ? v?.replay_averages_ns : v?.samples_ns) : undefined;
  return {
    run: row.run,
    job: null,
    variant: row.variant,
    label: v?.label ?? row.variant,
    outcome: row.outcome,
    device: answer?.device ?? null,
    asked: answer?.asked ?? null,
    ran: answer?.ran ?? row.conditions,
    correctness: row.outcome === 'ok' ? (v?.validation.correctness ?? 'not_verified') : 'failed',
    validation: row.outcome === 'ok' ? (v?.validation ?? null) : null,
    samples: row.outcome === 'ok' ? (v?.samples_ns ?? []) : [],
    averages: v?.replay_averages_ns ?? [],
    summary: summaryOf(timed ?? []),
    delta: row.delta ?? null,
    roofline: null,
    throughput: v?.throughput ?? null,
    counters: v?.counters,
    resources: v ? { driver: v.resources, code: {} as RunResources['code'] } : null,
    code_hash: v?.code_hash ?? '',
    notes: answer?.notes ?? [],
    address_mode: answer?.address_mode ?? '',
    address_by: answer?.address_by ?? '',
    rewritten_words: answer?.rewritten_words ?? 0,
    captured_bytes: answer?.captured_bytes ?? 0,
    restored_bytes: v?.restored_bytes_per_iteration ?? 0,
    written_bytes: v?.written_bytes ?? 0,
    wall_ms: answer?.wall_ms ?? 0,
    error: answer?.error ?? v?.error ?? null,
  };
}

/** A run's delta: where the answer has one, and both sides are correct. Else why there is none. */
export function shownDelta(
  d: { correctness: string; delta: Delta | null },
  other: string | undefined,
): { ratio: number; text: string } | { why: string } | null {
  if (d.delta === null) return null;
  if (d.correctness === 'incorrect' || d.correctness === 'failed') return null;
  if (d.correctness !== 'correct') return { why: 'its own results are not verified: no delta' };
  if (other !== undefined && other !== 'correct') return { why: `run ${d.delta.run} is ${other}: no delta` };
  return { ratio: d.delta.ratio, text: `${d.delta.ratio.toFixed(3)} × run ${d.delta.run}` };
}
