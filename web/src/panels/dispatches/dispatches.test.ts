// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { colourOf, ranksOf } from './colours';
import { treemap } from './treemap';
import { clampWindow, pan, ticks, zoom } from './window';

describe('treemap', () => {
  const values = [500, 250, 120, 60, 40, 20, 9, 1];
  const tiles = treemap(values, (value) => value, 600, 400);
  it('gives each its share of the area, inside the box and without overlap', () => {
    expect(tiles).toHaveLength(values.length);
    for (const tile of tiles) {
      expect((tile.width * tile.height) / (600 * 400)).toBeCloseTo(tile.item / 1000, 6);
      expect(tile.x).toBeGreaterThanOrEqual(-1e-6);
      expect(tile.x + tile.width).toBeLessThanOrEqual(600 + 1e-6);
      expect(tile.y + tile.height).toBeLessThanOrEqual(400 + 1e-6);
      for (const other of tiles)
        if (other !== tile)
          expect(tile.x + tile.width <= other.x + 1e-6 || other.x + other.width <= tile.x + 1e-6 || tile.y + tile.height <= other.y + 1e-6 || other.y + other.height <= tile.y + 1e-6).toBe(true);
    }
  });
  it('keeps the large ones near to squares', () => {
    for (const tile of tiles.slice(0, 4)) expect(Math.max(tile.width / tile.height, tile.height / tile.width)).toBeLessThan(2.6);
  });
  it('leaves out what has no time, and is empty without room', () => {
    expect(treemap([1, 0], (value) => value, 10, 10)).toHaveLength(1);
    expect(treemap([1], (value) => value, 0, 10)).toEqual([]);
  });
});

describe('window of time', () => {
  const whole = { from: 1000, to: 2001000 };
  it('zooms around a time that stays', () => {
    const window = zoom({ from: 501000, to: 1501000 }, whole, 0.5, 0.25);
    expect(window.to - window.from).toBe(500000);
    expect(window.from + 125000).toBe(751000);
  });
  it('never leaves the list, nor shrinks to nothing', () => {
    expect(zoom(whole, whole, 4)).toEqual(whole);
    expect(pan({ from: 1000, to: 101000 }, whole, -3)).toEqual({ from: 1000, to: 101000 });
    expect(pan({ from: 1900000, to: 2000000 }, whole, 5).to).toBe(2001000);
    const least = zoom({ from: 5000, to: 5010 }, whole, 1e-9);
    expect(least.to - least.from).toBe(100);
    expect(clampWindow({ from: 0, to: 1e12 }, { from: 7, to: 57 })).toEqual({ from: 7, to: 57 });
  });
  it('has round marks', () => {
    expect(ticks({ from: 130, to: 1030 }, 5)).toEqual([200, 400, 600, 800, 1000]);
    expect(ticks({ from: 5, to: 5 }, 5)).toEqual([]);
  });
});

it('the eight with the most time have a colour of their own', () => {
  const ranks = ranksOf(Array.from({ length: 12 }, (_, i) => ({ kernel: 100 + i })));
  expect(colourOf(ranks, 100)).toBe('var(--kernel-0)');
  expect(colourOf(ranks, 107)).toBe('var(--kernel-7)');
  expect(colourOf(ranks, 108)).toBe('var(--kernel-other)');
  expect(colourOf(ranks, -1)).toBe('var(--kernel-other)');
});
