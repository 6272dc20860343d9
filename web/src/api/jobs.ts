// SPDX-License-Identifier: Apache-2.0
// Long work: a verb is started as a job, followed to its end, and can be cancelled.
// The stream says when a job moves, so following one holds no connection of its own.
import { call, CallError } from './client';
import type { Answer, Arguments, Error as KlabError, JobRow, Verb } from './types';

/** Resolves when something may have changed about `job`, at the latest after `ms`. */
export type Changed = (job: number, ms: number) => Promise<void>;

const kLook = 2000;

export const hasEnded = (row: JobRow) => row.state !== 'queued' && row.state !== 'running';

/** Starts `verb` as a job and gives its number. */
export async function startJob<V extends Verb>(verb: V, args: Arguments<V>, session = ''): Promise<number> {
  const answer = await call('job.start', { verb, arguments: args as Record<string, unknown>, session: session || undefined });
  return answer.job;
}

/**
 * Waits until the job has ended, across lost connections, and gives the answer of its verb.
 * Errors: CallError of the verb; `interrupted` when it was cancelled; `worker_lost` when its process is gone.
 */
export async function followJob<V extends Verb>(job: number, changed: Changed, signal?: AbortSignal): Promise<Answer<V>> {
  for (;;) {
    let row: JobRow | undefined;
    try {
      row = (await call('job.wait', { job, wait_s: 0 }, { signal })).job;
    } catch (thrown) {
      if (!(thrown instanceof CallError) || !thrown.offline) throw thrown;
    }
    if (row && hasEnded(row)) return resultOf<V>(row);
    if (signal?.aborted) throw new CallError('cancelled', 'the call was given up');
    await changed(job, kLook);
  }
}

/** What an ended job gave. Errors: as followJob. */
export function resultOf<V extends Verb>(row: JobRow): Answer<V> {
  const result = row.result as { error?: KlabError } | null | undefined;
  const error = result?.error;
  if (row.state === 'done' && !(error && Object.keys(result ?? {}).length === 1)) return result as Answer<V>;
  if (error && row.state !== 'cancelled') throw new CallError(error.code, error.what, error.hint ?? '', row.kind);
  if (row.state === 'cancelled') throw new CallError('interrupted', `${row.kind} was cancelled`, '', row.kind);
  if (row.state === 'lost')
    throw new CallError('worker_lost', `the process that worked on job ${row.id} is gone`, 'start it again', row.kind);
  throw new CallError('internal', `job ${row.id} ended as ${row.state} without a reason`, 'its log says more', row.kind);
}

export const cancelJob = (job: number) => call('job.cancel', { job });
