// SPDX-License-Identifier: Apache-2.0
// Events of a session in words. Pure.
import type { EventRow } from '../../api/types';
import { bytes, fileName, ratio, time, words } from '../../ui/format';

export interface EventWords {
  what: string;
  detail: string;
  tone: 'plain' | 'good' | 'bad' | 'dim';
}

const kCallers: Record<string, string> = { cli: 'cli', mcp: 'agent', page: 'page' };
/** Who did it: "cli", "agent", "page". */
export const whoOf = (by: string | undefined): string => (by ? (kCallers[by] ?? by) : '');

const kTitles: Record<string, string> = {
  open: 'opened', close: 'closed', freed: 'inputs deleted', trace: 'traced', capture: 'captured', search: 'searched for the source', select_source: 'source selected',
  dispatch_selected: 'dispatch selected', build: 'built', run: 'ran', compare: 'compared', save: 'saved', save_asked: 'asked to save', save_approved: 'save approved',
  save_denied: 'save denied', undone: 'save undone',
};

/** Names of variants by their id. */
export type Names = ReadonlyMap<string, string>;

export function eventWords(row: EventRow, names: Names): EventWords {
  const d = row.detail;
  const variant = d.variant ? (names.get(d.variant) ?? d.variant) : '';
  if (row.kind === 'begin') {
    const request = d.request as { variant?: string; kernel?: string; name?: string } | undefined;
    return { what: `${words(d.kind ?? 'work')} begins`, detail: request?.variant ? (names.get(request.variant) ?? request.variant) : (request?.name ?? request?.kernel ?? ''), tone: 'dim' };
  }
  if (d.error) return { what: `${words(row.kind)} failed`, detail: d.error.what, tone: 'bad' };
  if (d.state === 'cancelled') return { what: `${words(row.kind)} was cancelled`, detail: variant, tone: 'dim' };
  if (d.state && d.state !== 'done') return { what: `${words(row.kind)}: ${d.state}`, detail: variant, tone: 'bad' };
  const parts: string[] = [];
  switch (row.kind) {
    case 'trace':
      if (d.captured_bytes !== undefined && d.dispatches === undefined) return { what: 'previewed a capture', detail: bytes(d.captured_bytes, 4), tone: 'plain' };
      if (d.dispatches !== undefined) parts.push(`${d.dispatches} dispatches`);
      break;
    case 'capture':
      if (d.given) return { what: 'opened on a capture', detail: d.bundle ? fileName(d.bundle) : '', tone: 'plain' };
      parts.push(d.kernel ?? '', d.captured_bytes !== undefined ? bytes(d.captured_bytes, 4) : '', d.proof ? `proof: ${words(d.proof)}` : '');
      break;
    case 'search': parts.push(`${d.candidates ?? 0} candidates`); break;
    case 'select_source': parts.push(d.file ? fileName(d.file) : ''); break;
    case 'dispatch_selected': parts.push(d.dispatch?.kernel ?? d.dispatch?.pattern ?? '', d.dispatch?.nth ? `dispatch ${d.dispatch.nth}` : ''); break;
    case 'build': parts.push(d.name ?? variant); break;
    case 'run': parts.push(variant, d.run !== undefined ? `run ${d.run}` : '', d.median_ns ? `median ${time(d.median_ns)}` : ''); break;
    case 'compare':
      parts.push(variant, d.correctness ? words(d.correctness) : '', d.speed && d.speed !== 'none' ? words(d.speed) : '', d.ratio ? ratio(d.ratio) : '');
      return { what: 'compared', detail: parts.filter(Boolean).join(', '), tone: d.correctness === 'correct' ? (d.speed === 'faster' ? 'good' : 'plain') : 'bad' };
    case 'save': parts.push(d.file ? fileName(d.file) : '', d.approved_by ? `approved by ${whoOf(d.approved_by)}` : ''); break;
    case 'save_asked': case 'save_approved': case 'save_denied': parts.push(variant, d.file ? `into ${fileName(d.file)}` : ''); break;
    case 'undone': parts.push(d.file ? fileName(d.file) : ''); break;
    case 'freed': parts.push(d.bytes !== undefined ? bytes(d.bytes) : ''); break;
  }
  const good = row.kind === 'save' || (row.kind === 'capture' && d.proof === 'equal');
  return { what: kTitles[row.kind] ?? words(row.kind), detail: parts.filter(Boolean).join(', '), tone: good ? 'good' : 'plain' };
}
