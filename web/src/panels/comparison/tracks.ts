// SPDX-License-Identifier: Apache-2.0
// What was observed over a comparison, as lines over time. Not here: drawing.
import type { Comparison, EnvironmentSample } from '../../api/types';

export interface Track {
  name: string;
  unit: string;
  samples: { at: number; value: number; reasons: string }[];
}

const kTracks = [
  { member: 'sm_mhz', name: 'clock of the processors', unit: 'MHz', scale: 1 },
  { member: 'memory_mhz', name: 'clock of the memory', unit: 'MHz', scale: 1 },
  { member: 'power_w', name: 'power', unit: 'W', scale: 1 },
  { member: 'temperature_c', name: 'temperature', unit: '°C', scale: 1 },
  { member: 'taken_share', name: 'processors taken by other programs', unit: '%', scale: 100 },
] as const;

/** Those of the comparison itself: samples before a step back in time were taken while the floor was measured. */
export function environment(c: Comparison): EnvironmentSample[] {
  let own: EnvironmentSample[] = [];
  let before = Number.NEGATIVE_INFINITY;
  for (const s of c.environment?.samples ?? []) {
    if (s.at_s < before) own = [];
    before = s.at_s;
    own.push(s);
  }
  return own;
}

export function tracks(c: Comparison): Track[] {
  const samples = environment(c);
  return kTracks.flatMap(({ member, name, unit, scale }) => {
    const of = samples.flatMap((s) => {
      const value = s[member];
      if (value === undefined) return [];
      const reasons = Array.isArray(s.reasons) ? s.reasons.join(', ') : '';
      return [{ at: s.at_s, value: value * scale, reasons }];
    });
    return of.length > 0 ? [{ name, unit, samples: of }] : [];
  });
}

/** The last second that charts show. */
export function endOf(c: Comparison): number {
  const samples = environment(c);
  return Math.max(c.blocks[c.blocks.length - 1]?.at_s ?? 0, samples[samples.length - 1]?.at_s ?? 0);
}

/** Why clocks are not there, in the words of the answer. */
export function clockWords(c: Comparison): string {
  const source = c.environment?.source ?? 'none';
  if (source !== 'none' && source !== '') return `Observed by ${source}, never changed; one sample for each block.`;
  const clocks = c.clocks ?? '';
  if (clocks !== '' && clocks !== 'not observed') return `Clocks were ${clocks}.`;
  return `Clocks were not observed${c.environment?.why ? `: ${c.environment.why}` : ' (the answer does not say why)'}.`;
}
