// SPDX-License-Identifier: Apache-2.0
// Which figures of a calibration are roofs, and where runs lie under them. Shares and roofs of a run are the answer's
// (src/calibrate/roofline.h); here they only get coordinates.

export interface Figure {
  kind: string;
  name: string;
  unit: string;
  value: number;
  q1: number;
  q3: number;
  best: number;
  samples?: number | undefined;
  config?: string | undefined;
  how?: string | undefined;
  shape?: string | undefined;
  width?: number | undefined;
  burst?: number | undefined;
  clock_mhz?: number | undefined;
  ceiling_only?: boolean | undefined;
}

/** As Calibration::best(): the best of that name; one that is a ceiling only where there is no other. */
export function best(figures: readonly Figure[], kind: string, name: string): Figure | null {
  let found: Figure | null = null;
  for (const f of figures) {
    if (f.kind !== kind || f.name !== name) continue;
    const ceiling = f.ceiling_only === true;
    if (found === null) found = f;
    else {
      const other = found.ceiling_only === true;
      if (ceiling !== other ? other : f.value > found.value) found = f;
    }
  }
  return found;
}

export interface Roof {
  label: string;
  figure: Figure;
}

/** Bandwidths in GB/s and rates in GFLOP/s, the best of each name, the highest first; integer rates come last. */
export function roofs(figures: readonly Figure[]): { memory: Roof[]; compute: Roof[] } {
  const memory: Roof[] = [];
  const compute: Roof[] = [];
  const seen = new Set<string>();
  for (const f of figures) {
    const key = `${f.kind} ${f.name}`;
    if (f.kind === 'launch' || seen.has(key)) continue;
    seen.add(key);
    const figure = best(figures, f.kind, f.name);
    if (figure === null || !(figure.value > 0)) continue;
    if (f.kind === 'memory' || f.kind === 'cache') memory.push({ label: figureTitle(figure), figure });
    else compute.push({ label: figureTitle(figure), figure });
  }
  const highest = (x: Roof, y: Roof): number => y.figure.value - x.figure.value;
  const whole = (r: Roof): number => (r.figure.name.startsWith('int') ? 1 : 0);
  return { memory: memory.sort(highest), compute: compute.sort((x, y) => whole(x) - whole(y) || highest(x, y)) };
}

export function figureTitle(f: Figure): string {
  switch (f.kind) {
    case 'launch':
      return f.name === 'empty_launch'
        ? 'empty launch, device time'
        : f.name === 'launch_and_wait'
          ? 'launch and wait, host time'
          : 'launches back to back';
    case 'cache':
      return 'last-level cache, read';
    case 'memory':
      return `memory, ${f.name}`;
    default:
      return `${f.kind === 'matrix' ? 'matrix' : 'vector'} ${f.name}`;
  }
}

/** How it was measured, in one line. */
export function figureWay(f: Figure): string {
  const parts: string[] = [];
  if (f.how) parts.push(f.how);
  if (f.width && !f.how) parts.push(`${f.width} bytes an access`);
  if (f.shape) parts.push(f.shape);
  if (f.config) parts.push(f.config);
  if (f.clock_mhz) parts.push(`${Math.round(f.clock_mhz)} MHz`);
  if (f.ceiling_only) parts.push('a ceiling, no roof');
  return parts.join(', ');
}

/** A rate in the unit that suits it: "1.91 GB/s", "3.35 TB/s". */
export function rateText(value: number, unit: string): string {
  if (unit === 'ns') {
    const [scale, name] = value >= 1e6 ? [1e6, 'ms'] : value >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
    return `${Number((value / scale).toPrecision(3))}\u00a0${name}`;
  }
  if (unit === '1/s') return `${Math.round(value).toLocaleString('en')}\u00a0/s`;
  const rest = unit.startsWith('G') ? unit.slice(1) : ` ${unit}`;
  return value >= 1000
    ? `${(value / 1000).toFixed(2)}\u00a0T${rest}`
    : `${value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)}\u00a0G${rest}`;
}

export interface Placed {
  why?: string | undefined;
  achieved_gbs?: number | undefined;
  achieved_gflops?: number | undefined;
  intensity?: number | undefined;
  memory_roof_gbs?: number | undefined;
  memory_roof?: string | undefined;
  compute_roof_gflops?: number | undefined;
  compute_roof?: string | undefined;
  bound?: string | undefined;
  share?: number | undefined;
  impossible?: boolean | undefined;
  sentence?: string | undefined;
  notes?: string[] | undefined;
}

/** A point needs both operations and bytes; one of them alone is compared with a roof, but has no place in the plane. */
export function hasPoint(p: Placed): p is Placed & { intensity: number; achieved_gflops: number } {
  return (p.intensity ?? 0) > 0 && (p.achieved_gflops ?? 0) > 0;
}

/** In the words of `klab replay`. */
export function placedText(p: Placed): string {
  if (p.why !== undefined) return `not shown: ${p.why}`;
  const parts: string[] = [];
  if (p.achieved_gbs !== undefined)
    parts.push(
      `${Number(p.achieved_gbs.toPrecision(4))} GB/s` +
        (p.memory_roof_gbs === undefined ? '' : ` of ${Number(p.memory_roof_gbs.toPrecision(4))} (${p.memory_roof ?? ''})`),
    );
  if (p.achieved_gflops !== undefined)
    parts.push(
      `${Number(p.achieved_gflops.toPrecision(4))} GFLOP/s` +
        (p.compute_roof_gflops === undefined ? '' : ` of ${Number(p.compute_roof_gflops.toPrecision(4))} (${p.compute_roof ?? ''})`),
    );
  const rates = parts.join('; ');
  if (p.impossible) return `impossible, so no share is given: ${rates}`;
  if (p.share === undefined) return rates;
  return `${(100 * p.share).toFixed(1)}\u00a0% of the speed of light, bound by ${p.bound ?? '?'}: ${rates}`;
}
