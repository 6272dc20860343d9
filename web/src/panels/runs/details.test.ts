// SPDX-License-Identifier: Apache-2.0
import { cleanup, render, screen } from '@testing-library/svelte';
import { afterEach, describe, expect, it } from 'vitest';
import runSample from '../../../tests/samples/run.json';
import runWrongSample from '../../../tests/samples/run_wrong.json';
import type { Run, RunRow, WorkerAnswer } from '../../api/types';
import { counterRows } from './counters';
import { ofAnswer, ofRun, shownDelta } from './details';
import RunDetails from './RunDetails.svelte';

afterEach(cleanup);

const run = runSample.result;
const runWrong = runWrongSample.result;

const right = run as unknown as Run;
const wrong = runWrong as unknown as Run;
const row = (of: Run, more: Partial<RunRow> = {}): RunRow => ({ run: of.run, dispatch: 0, variant: 'v1', device: '', conditions: of.ran, outcome: 'ok', at: '', ...more });
const answer = (of: Run): WorkerAnswer => ({
  outcome: 'ok', device: of.device, asked: of.asked, ran: of.ran, notes: of.notes, address_mode: 'none', address_by: '', rewritten_words: 0, captured_bytes: 1, wall_ms: 1,
  variants: [{ label: 'same', outcome: 'ok', samples_ns: of.samples_ns, restored_bytes_per_iteration: 0, written_bytes: 0, resources: {}, code_hash: '', validation: of.validation }],
});
const props = (d: ReturnType<typeof ofRun>) => ({ detail: d, name: 'same', at: 'now', other: undefined, othersName: 'baseline', onvalidation: () => undefined });

describe('one run', () => {
  it('is the same from either record', () => {
    const a = ofRun(row(right), right, 8);
    const b = ofAnswer(row(right), answer(right));
    for (const name of ['correctness', 'samples', 'ran', 'asked', 'notes', 'validation'] as const) expect(b[name]).toEqual(a[name]);
    expect(b.summary?.median_ns).toBe(a.summary?.median_ns);
    expect(b.summary?.mean_ns).toBeCloseTo(a.summary?.mean_ns ?? 0);
  });
  it('that did not end well has failed, with no time', () => {
    const d = ofAnswer(row(right, { outcome: 'device_fault' }), { ...answer(right), error: { code: 'device_fault', what: 'it read at 0x10' } });
    expect(d).toMatchObject({ correctness: 'failed', validation: null, samples: [], summary: null, error: { what: 'it read at 0x10' } });
    render(RunDetails, props(d));
    expect(screen.getByText('It ended with device_fault: it read at 0x10')).toBeTruthy();
  });
  it('shows a delta only where its answer has one and both sides are right', () => {
    const delta = { run: 3, variant: 'baseline', at: '', ratio: 0.5 };
    expect(shownDelta({ correctness: 'correct', delta: null }, undefined)).toBeNull();
    expect(shownDelta({ correctness: 'correct', delta }, 'correct')).toEqual({ ratio: 0.5, text: '0.500 × run 3' });
    expect(shownDelta({ correctness: 'incorrect', delta }, 'correct')).toBeNull();
    expect(shownDelta({ correctness: 'not_verified', delta }, 'correct')).toEqual({ why: 'its own results are not verified: no delta' });
    expect(shownDelta({ correctness: 'correct', delta }, 'not_verified')).toEqual({ why: 'run 3 is not_verified: no delta' });
    expect(shownDelta({ correctness: 'correct', delta }, 'incorrect')).toEqual({ why: 'run 3 is incorrect: no delta' });
  });
  it('shows its numbers, conditions and notes', () => {
    const { container } = render(RunDetails, props(ofRun(row(right), { ...right, delta: { run: 1, variant: 'baseline', at: '', ratio: 1.0234 } }, 8)));
    expect(screen.getAllByText(/9\.836.ms/).length).toBeGreaterThan(0);
    expect(screen.getByText('1.023 × its median; a difference, not a claim')).toBeTruthy();
    expect(screen.getByText('isolated, 10 iterations, cache cold')).toBeTruthy();
    expect(screen.getByText('as asked')).toBeTruthy();
    expect(screen.getByText(/only 16 MiB are written/)).toBeTruthy();
    expect(container.textContent).toMatch(/107\.7 launches\/s, 60\.8 µs of the host each/);
  });
  it('of a wrong variant shows no time, no delta, no roofline', () => {
    const { container } = render(RunDetails, props(ofRun(row(wrong), { ...wrong, delta: { run: 1, variant: 'baseline', at: '', ratio: 1.0234 }, roofline: { share: 0.5, bound: 'memory', achieved_gbs: 9 } }, 10)));
    expect(screen.getByText(/nothing is said of its speed/)).toBeTruthy();
    expect(container.querySelector('figure')).toBeNull();
    expect(container.textContent).not.toMatch(/14\.14|13\.3|\dµs|launches\/s|1\.023|GB\/s|of the speed of light/);
    expect(screen.getByText(/25600 bytes differ/)).toBeTruthy();
  });
  it('says what ran where that is not what was asked', () => {
    const d = ofRun(row(right), { ...right, ran: { ...right.ran, flush_mb: 16 } }, 8);
    render(RunDetails, props(d));
    expect(screen.getByText('isolated, 10 iterations, cache cold, 16 MiB flushed before each launch')).toBeTruthy();
  });
});

describe('hardware counters', () => {
  it('are rows, with what is missing', () => {
    const { rows, missing } = counterRows({
      derived: { dram_read_bytes: { value: 1.5e6, unit: 'bytes' }, stalled_warps_per_issue: { value: { selected: 9, wait: 0.5, barrier: 2 } } },
      values: { x__y: 3 }, missing: ['pipe_tensor'],
    });
    expect(rows).toEqual([['dram read bytes', '1500000 bytes'], ['stalled warps per issue', 'barrier 2.00, wait 0.500'], ['x__y', '3.00000']]);
    expect(missing).toBe('pipe_tensor');
    expect(counterRows(undefined)).toEqual({ rows: [], missing: '' });
  });
});
