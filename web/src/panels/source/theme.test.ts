// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { kGrounds, kInk } from './theme';

const css = readFileSync('src/ui/theme.css', 'utf8');
function token(name: string): [string, string] {
  const m = new RegExp(`--${name}: light-dark\\((#[0-9a-f]{6}), (#[0-9a-f]{6})\\)`).exec(css);
  if (!m) throw new Error(`theme.css has no --${name}`);
  return [m[1]!, m[2]!];
}

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((i) => {
    const c = parseInt(hex.slice(i, i + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}
const contrast = (a: string, b: string) => {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x! + 0.05) / (y! + 0.05);
};

it('knows contrast', () => {
  expect(contrast('#000000', '#ffffff')).toBeCloseTo(21);
  expect(contrast('#777777', '#ffffff')).toBeCloseTo(4.48, 2);
});

describe.each([['light', 0], ['dark', 1]] as const)('%s', (_, theme) => {
  const inks = { ...kInk, text: token('text'), quiet: token('text-2') };
  const grounds = { ...kGrounds, page: token('ground'), panel: token('ground-2') };
  it.each(Object.entries(grounds))('every text colour can be read on %s', (name, ground) => {
    for (const [ink, colour] of Object.entries(inks)) {
      expect(contrast(colour[theme]!, ground[theme]!), `${ink} on ${name}`).toBeGreaterThanOrEqual(4.5);
    }
  });
});
