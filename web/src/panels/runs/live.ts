// SPDX-License-Identifier: Apache-2.0
// The interval so far, out of a comparison's progress line (src/worker/contest.cpp). Another wording shows no picture,
// and the line itself is always shown.

export interface LiveInterval {
  ratio: number;
  low: number;
  high: number;
}

export function liveInterval(line: string): LiveInterval | null {
  if (line.includes('two copies of one module')) return null; // the floor's, not the comparison's
  const found = /B takes ([\d.]+) of A's time, ([\d.]+) to ([\d.]+) so far/.exec(line);
  if (found === null) return null;
  const [ratio, low, high] = found.slice(1).map(Number);
  if (ratio === undefined || low === undefined || high === undefined) return null;
  return Number.isFinite(ratio) && low <= high ? { ratio, low, high } : null;
}
