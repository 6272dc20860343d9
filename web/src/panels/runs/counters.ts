// SPDX-License-Identifier: Apache-2.0
// Hardware counters of a run as rows: {"values", "derived": {name: {"value", "unit", "from"}}, "missing"}.
import { significant } from '../../ui/format';

export function counterRows(counters: unknown): { rows: [string, string][]; missing: string } {
  const rows: [string, string][] = [];
  if (typeof counters !== 'object' || counters === null) return { rows, missing: '' };
  const of = counters as { derived?: Record<string, { value?: unknown; unit?: string }>; values?: Record<string, unknown>; missing?: unknown; passes?: number };
  for (const [name, d] of Object.entries(of.derived ?? {})) {
    if (typeof d.value === 'number') rows.push([name.replaceAll('_', ' '), `${significant(d.value, 6)} ${d.unit ?? ''}`.trim()]);
    else if (typeof d.value === 'object' && d.value !== null) {
      const parts = Object.entries(d.value as Record<string, unknown>)
        .filter((p): p is [string, number] => typeof p[1] === 'number' && p[0] !== 'selected')
        .sort((a, b) => b[1] - a[1])
        .slice(0, 4);
      rows.push([name.replaceAll('_', ' '), parts.map(([n, v]) => `${n} ${significant(v, 3)}`).join(', ')]);
    }
  }
  for (const [name, v] of Object.entries(of.values ?? {})) if (typeof v === 'number') rows.push([name, significant(v, 6)]);
  const missing = Array.isArray(of.missing) ? of.missing.map((m) => (typeof m === 'string' ? m : JSON.stringify(m))).join(', ') : '';
  return { rows, missing };
}
