// SPDX-License-Identifier: Apache-2.0
// Names of variants: a sensible one to begin with, and what the server would refuse.

const kMost = 128;

/** "naive" -> "naive-1", "naive-1" -> "naive-2": the first that is free. */
export function nextName(from: string, taken: Iterable<string>): string {
  const names = new Set(taken);
  const stem = clip(from.replace(/[/\\\0]/g, '').replace(/-\d+$/, '').trim() || 'variant', kMost - 6);
  for (let n = 1; ; ++n) {
    const name = `${stem}-${n}`;
    if (!names.has(name)) return name;
  }
}

/** "/a/b/matmul.comp" -> "matmul" */
export function stemOf(file: string): string {
  const name = file.slice(file.lastIndexOf('/') + 1);
  const dot = name.lastIndexOf('.');
  return dot > 0 ? name.slice(0, dot) : name;
}

/** Empty when it will do. */
export function nameProblem(name: string): string {
  if (/[/\\\0]/.test(name)) return 'A name has no slashes.';
  if (name === '.' || name === '..') return 'That is no name.';
  if (name === 'baseline') return '"baseline" is the captured kernel.';
  if (new TextEncoder().encode(name).length > kMost) return `A name has at most ${kMost} bytes.`;
  return '';
}

function clip(text: string, bytes: number): string {
  let out = text;
  while (new TextEncoder().encode(out).length > bytes) out = [...out].slice(0, -1).join('');
  return out;
}
