// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { decadeText, dots, linear, logarithmic, squares, tickText } from './scale';
import { blockRatio, bulk, ecdf, placementMeans, placementRuns, quantile, summarise } from './stats';
import { nearest } from './table';

describe('scales', () => {
  it('map ends to ends and keep what is outside at the edge', () => {
    const x = linear(10, 20, 100, 200);
    expect([x(10), x(15), x(20), x(99), x(-1), x(Number.NaN)]).toEqual([100, 150, 200, 200, 100, 100]);
    expect([x.holds(10), x.holds(20.1)]).toEqual([true, false]);
  });
  it('make room where all values are one', () => {
    const x = linear(5, 5, 0, 100);
    expect(x(5)).toBe(50);
    expect(linear(0, 0, 0, 10).ticks(4).length).toBeGreaterThan(1);
  });
  it('have round ticks inside', () => {
    expect(linear(0.93, 1.07, 0, 1).ticks(6)).toSatisfy((t: number[]) => t.every((v) => v >= 0.93 - 1e-9 && v <= 1.07 + 1e-9) && t.length >= 3);
    expect(tickText(0.98, 0.02)).toBe('0.98');
    expect(tickText(1e6, 1e5)).toBe('1000000');
  });
  it('take logarithms', () => {
    const x = logarithmic(1, 10000, 0, 400);
    expect(x(100)).toBeCloseTo(200);
    expect(x.ticks(10)).toEqual([1, 10, 100, 1000, 10000]);
    expect(logarithmic(2, 8, 0, 1).ticks(5)).toEqual([2, 5]);
    expect([decadeText(0.01), decadeText(1000), decadeText(1e6), decadeText(1e-5)]).toEqual(['0.01', '1000', '10⁶', '10⁻⁵']);
  });
  it('draw many marks as one path', () => {
    expect(dots([[1, 2], [3.456, 4]])).toBe('M1 2h0M3.5 4h0');
    expect(squares([[5, 5]], 2)).toBe('M3 3h4v4h-4z');
  });
});

describe('statistics', () => {
  it('quartiles are those of type 7', () => {
    // As klab itself summarised these samples (tests/samples/run.json).
    const samples = [8303917, 9290884, 9679462, 8767346, 9810937, 9860831, 9891111, 10304632, 10581142, 10584217];
    expect(summarise(samples)).toEqual({ count: 10, min: 8303917, q1: 9388028.5, median: 9835884, q3: 10201251.75, max: 10584217 });
  });
  it('a block cancels linear drift', () => {
    const t = (time_ns: number) => ({ time_ns });
    // ABBA under a drift that multiplies: B is twice A.
    expect(blockRatio({ placement: 0, a: [t(1), t(8)], b: [t(2 * 2), t(2 * 4)] })).toBeCloseTo(2 * Math.sqrt((2 * 4) / (1 * 8)));
    expect(blockRatio({ placement: 0, a: [t(10), t(10)], b: [t(11), t(11)] })).toBeCloseTo(1.1);
  });
  it('dropped blocks and later placements do not count', () => {
    const block = (placement: number, ratio: number, dropped?: string) => ({ placement, a: [{ time_ns: 1 }, { time_ns: 1 }], b: [{ time_ns: ratio }, { time_ns: ratio }], dropped });
    const blocks = [block(0, 2), block(0, 8), block(0, 100, 'hot'), block(1, 3), block(2, 5)];
    expect(placementMeans(blocks, 2)).toEqual([
      { placement: 0, blocks: 2, ratio: expect.closeTo(4, 9) as number },
      { placement: 1, blocks: 1, ratio: expect.closeTo(3, 9) as number },
    ]);
    expect(placementRuns(blocks)).toEqual([
      { placement: 0, from: 0, to: 2 },
      { placement: 1, from: 3, to: 3 },
      { placement: 2, from: 4, to: 4 },
    ]);
  });
  it('the distribution ends at one and keeps the extremes', () => {
    const values = Array.from({ length: 5000 }, (_, i) => 5000 - i);
    const steps = ecdf(values, 100);
    expect(steps.length).toBeLessThanOrEqual(102);
    expect(steps[0]?.[0]).toBe(1);
    expect(steps[steps.length - 1]).toEqual([5000, 1]);
    expect(ecdf([])).toEqual([]);
  });
  it('the bulk leaves far values out', () => {
    const values = [...Array.from({ length: 1000 }, (_, i) => i), 1e9];
    expect(bulk(values, 0.005)?.high).toBeLessThan(1001);
    expect(bulk([], 0.1)).toBeNull();
    expect(quantile([], 0.5)).toBeNaN();
  });
  it('the pointer finds the nearest mark within reach', () => {
    const marks = [{ x: 0, y: 0, text: 'a' }, { x: 10, y: 0, text: 'b' }];
    expect(nearest(marks, 7, 1)?.text).toBe('b');
    expect(nearest(marks, 200, 0)).toBeNull();
  });
});
