// SPDX-License-Identifier: Apache-2.0
import { cleanup, render, screen, within } from '@testing-library/svelte';
import { afterEach, describe, expect, it } from 'vitest';
import compareFastSample from '../../../tests/samples/compare_fast.json';
import compareWrongSample from '../../../tests/samples/compare_wrong.json';
import reportSample from '../../../tests/samples/comparison_report.json';
import answers from '../../../../schemas/answers.json';
import type { ComparisonReport } from '../../api/types';
import { environment, tracks } from './tracks';
import View from './View.svelte';
import { change, headline, kCorrectness, kSpeeds, ratioText, signOf, timesShown } from './words';

afterEach(cleanup);

const compareFast = compareFastSample.result;
const compareWrong = compareWrongSample.result;

const report = reportSample.result.report as unknown as ComparisonReport;

/** The report that klab makes of an answer of compare. */
function reportOf(answer: typeof compareFast | typeof compareWrong): ComparisonReport {
  const [a, b] = answer.variants;
  const { comparison } = answer as unknown as ComparisonReport;
  const samples = (v: (typeof answer.variants)[number] | undefined) => ({ taken: v?.samples_ns.length ?? 0, kept: v?.samples_ns.length ?? 0, times_ns: (v?.samples_ns ?? []) as number[] });
  return {
    ...report,
    ...(comparison ? { comparison } : {}),
    a: { label: a?.label ?? '' },
    b: { label: b?.label ?? '' },
    verdict: { ...answer.verdict, comparison: answer.verdict.id } as unknown as ComparisonReport['verdict'],
    validation: b?.validation as unknown as NonNullable<ComparisonReport['validation']>,
    samples: { a: samples(a), b: samples(b) },
  };
}
const without = (r: ComparisonReport): ComparisonReport => {
  const { comparison: _, ...rest } = r;
  return rest;
};

describe('words of a verdict', () => {
  it('are the closed sets of the schemas', () => {
    expect([...kCorrectness]).toEqual(answers.$defs.Correctness.enum);
    expect(['none', ...kSpeeds]).toEqual(answers.$defs.Speed.enum);
    for (const word of [...kCorrectness, ...kSpeeds]) expect(signOf(word).sign).not.toBe('·');
  });
  const judged = (speed: string, low: number, high: number, more = {}) =>
    headline({ a: 'baseline', b: 'fast', correctness: 'correct', speed, conclusion: { interval: { ratio: (low + high) / 2, low, high, alpha: 0.05, from: 'student' }, reason: 'the reason' }, delta: 0.01, ...more });
  it('headline the bound that is nearer to 1, as the report does', () => {
    expect(judged('faster', 0.9, 0.948).words).toBe('fast is faster: at least 5.20\u00a0% less time');
    expect(judged('slower', 1.031, 1.2).words).toBe('fast is slower: at least 3.10\u00a0% more time');
    expect(judged('equivalent', 0.995, 1.004).words).toBe('baseline and fast take the same time, within 1.00\u00a0%');
  });
  it('claim nothing otherwise', () => {
    expect(judged('inconclusive', 0.9, 1.1)).toMatchObject({ word: 'inconclusive', words: 'Not shown either way: fast may be faster or slower', more: 'the reason.' });
    expect(judged('inconclusive', 0.9, 0.91, { interrupted: true }).words).toBe('No claim: the comparison was interrupted');
    expect(judged('unstable', 0, 0).words).toBe('No claim: the device was disturbed too often');
    expect(judged('clock_dependent', 0.9, 0.95).words).toBe('No claim: the clock was not the same for both');
  });
  it('say nothing of the speed of what is not correct', () => {
    for (const correctness of ['incorrect', 'not_verified', 'failed']) {
      const h = headline({ a: 'baseline', b: 'fast', correctness, speed: 'faster', conclusion: { interval: { ratio: 0.5, low: 0.4, high: 0.6, alpha: 0.05, from: 'student' }, reason: '' } });
      expect(h.word).toBe(correctness);
      expect(h.words + h.more).not.toMatch(/\d/);
    }
    expect(timesShown('incorrect')).toBe(false);
    expect(timesShown('failed')).toBe(false);
  });
  it('never give a ratio without interval and floor', () => {
    expect(ratioText({ ratio: 0.98, low: 0.94, high: 1.02, alpha: 0.05, from: 'student' }, 0.1083)).toBe('0.9800 (0.9400 to 1.0200, 95\u00a0% interval); floor 10.83\u00a0%');
    expect(ratioText({ ratio: 2.05, low: 0, high: 0, alpha: 0.05, from: 'none' }, 0.1)).toBe('too few placements for an interval; floor 10.00\u00a0%');
    expect(change(0.948)).toBe('5.20\u00a0% less time');
  });
});

describe('the view', () => {
  it('shows an inconclusive comparison with interval, floor, and every chart in words', () => {
    render(View, { report });
    expect(screen.getByRole('heading', { level: 2 }).textContent).toBe('Not shown either way: same may be faster or slower');
    const card = screen.getByText('B’s time over A’s').parentElement as HTMLElement;
    expect(card.textContent).toMatch(/0\.9862/);
    expect(card.textContent).toMatch(/0\.9470 to 1\.0272, 95.% interval; floor 10\.83.%/);
    for (const name of ['Interval of B’s time over A’s', 'Times of single launches', 'Ratio of each block over time', 'Time of each letter'])
      expect(screen.getByText(name, { selector: '.title' })).toBeTruthy();
    expect(screen.getByText(/Clocks were not observed: a CPU driver/)).toBeTruthy();
    expect(screen.getByText(/only 16 MiB are written and read/)).toBeTruthy();
  });
  it('shows an unstable one with what was dropped and why, and no ratio', () => {
    render(View, { report: reportOf(compareFast) });
    expect(screen.getByRole('heading', { level: 2 }).textContent).toBe('No claim: the device was disturbed too often');
    expect(within(screen.getByLabelText('What was dropped')).getByText('14 of 15 blocks: other programs had the processors')).toBeTruthy();
    expect(document.body.textContent).not.toMatch(/2\.048/);
    expect(document.body.textContent).toMatch(/too few placements count/);
  });
  it('shows no time at all of a wrong variant', () => {
    // Even if an answer had them.
    const r = { ...reportOf(compareWrong), comparison: report.comparison, samples: report.samples } as ComparisonReport;
    const { container } = render(View, { report: r });
    expect(screen.getByRole('heading', { level: 2 }).textContent).toBe('wrong is incorrect');
    expect(container.textContent).not.toMatch(/\d (ns|µs|ms|s)\b|interval|floor|0\.9862/);
    expect(container.querySelector('figure')).toBeNull();
    expect(container.textContent).toMatch(/25600 bytes differ/);
  });
  it('shows a comparison that was only judged', () => {
    render(View, { report: { ...without(report), verdict: { ...report.verdict, speed: 'none' } } });
    expect(screen.getByRole('heading', { level: 2 }).textContent).toBe('same is correct');
    expect(screen.getByText('Its speed was not compared.')).toBeTruthy();
  });
});

describe('what was observed', () => {
  it('leaves out samples that were taken while the floor was measured', () => {
    const c = report.comparison;
    if (!c) throw new Error('the evidence has a comparison');
    const own = c.environment?.samples ?? [];
    const withFloor = { ...c, environment: { source: 'NVML', samples: [{ at_s: 0.5, sm_mhz: 100 }, { at_s: 9, sm_mhz: 100 }, ...own] } };
    expect(environment(withFloor)).toHaveLength(own.length);
    expect(tracks(withFloor).map((t) => t.name)).toEqual(['processors taken by other programs']);
    expect(tracks(c)[0]?.samples[0]?.value).toBeCloseTo(1.694, 2);
  });
});
