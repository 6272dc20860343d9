// SPDX-License-Identifier: Apache-2.0
// A unified diff, taken apart into rows that a table shows.

export interface DiffRow {
  kind: 'file' | 'hunk' | 'context' | 'added' | 'removed' | 'note';
  /** Line numbers from 1; 0: none on that side. */
  before: number;
  after: number;
  text: string;
}

export interface ParsedDiff {
  rows: DiffRow[];
  added: number;
  removed: number;
}

export function parseUnified(diff: string): ParsedDiff {
  const rows: DiffRow[] = [];
  let before = 0;
  let after = 0;
  let added = 0;
  let removed = 0;
  // Lines that a hunk still owes: "--- x" within one is a removed line, not a file's name.
  let owedBefore = 0;
  let owedAfter = 0;
  const lines = diff.split('\n');
  if (lines[lines.length - 1] === '') lines.pop();
  for (const line of lines) {
    const sign = line[0];
    const text = line.slice(1);
    if (sign === '\\') {
      rows.push({ kind: 'note', before: 0, after: 0, text: line.slice(2) });
    } else if (owedBefore > 0 || owedAfter > 0) {
      if (sign === '-') {
        rows.push({ kind: 'removed', before: before++, after: 0, text });
        --owedBefore, ++removed;
      } else if (sign === '+') {
        rows.push({ kind: 'added', before: 0, after: after++, text });
        --owedAfter, ++added;
      } else {
        rows.push({ kind: 'context', before: before++, after: after++, text });
        --owedBefore, --owedAfter;
      }
    } else {
      const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
      if (hunk) {
        before = Number(hunk[1]);
        after = Number(hunk[3]);
        owedBefore = Number(hunk[2] ?? 1);
        owedAfter = Number(hunk[4] ?? 1);
        rows.push({ kind: 'hunk', before: 0, after: 0, text: line });
      } else {
        rows.push({ kind: 'file', before: 0, after: 0, text: line });
      }
    }
  }
  return { rows, added, removed };
}
