// SPDX-License-Identifier: Apache-2.0
// What a compiler said, taken apart: `FILE:LINE[:COL]: error: TEXT` lines, and where in the edited text they point.

export type Severity = 'error' | 'warning' | 'note';

export interface CompilerMessage {
  severity: Severity;
  /** Path as the compiler named it; may be empty. */
  file: string;
  /** From 1; 0 when the message names no line. */
  line: number;
  /** From 1; 0 when unknown: glslang names none. */
  column: number;
  text: string;
}

const kLine = /^(.*?)(?::(\d+))?(?::(\d+))?: (?:fatal )?(error|warning|note)(?: #[\w-]+)?: (.*)$/;
const kBraces = /^(.*?)\((\d+)(?:,(\d+))?\): (?:fatal )?(error|warning|note)(?: #[\w-]+)?: (.*)$/; // nvcc, cl

/** Lines that are no message of their own (echoed source, carets) belong to the message before them. */
export function parseMessages(what: string): CompilerMessage[] {
  const messages: CompilerMessage[] = [];
  for (const line of what.split('\n')) {
    if (line === '') continue;
    const m = kBraces.exec(line) ?? kLine.exec(line);
    if (m) {
      messages.push({
        file: m[1] ?? '',
        line: Number(m[2] ?? 0),
        column: Number(m[3] ?? 0),
        severity: m[4] as Severity,
        text: m[5] ?? '',
      });
      continue;
    }
    const last = messages[messages.length - 1];
    if (last) last.text += '\n' + line;
    else messages.push({ severity: 'error', file: '', line: 0, column: 0, text: line });
  }
  return messages;
}

/** From the `messages` array of a build that went well. */
export function fromAnswer(list: readonly { severity?: string; file?: string; line?: number; text?: string }[]): CompilerMessage[] {
  return list.map((m) => ({
    severity: m.severity === 'warning' || m.severity === 'note' ? m.severity : 'error',
    file: m.file ?? '',
    line: m.line ?? 0,
    column: 0,
    text: m.text ?? '',
  }));
}

/** True when the message speaks of the text that was sent, not of a header that it includes. */
export function isOfText(message: CompilerMessage, fileName: string): boolean {
  if (message.file === '') return message.line > 0;
  return message.file === fileName || message.file.endsWith('/' + fileName);
}

const kQuoted = /['"‘`]([^'"’`]+)['"’`]/;

/**
 * Characters [from, to) of a line that a message means: at its column, else the first name that it quotes, else
 * the line without its indentation.
 */
export function rangeInLine(lineText: string, message: CompilerMessage): [number, number] {
  if (message.column > 0 && message.column <= lineText.length) {
    const from = message.column - 1;
    const word = /^[A-Za-z_]\w*|^\S/.exec(lineText.slice(from));
    return [from, from + Math.max(1, word?.[0].length ?? 1)];
  }
  const quoted = kQuoted.exec(message.text)?.[1];
  if (quoted) {
    const at = /^\w+$/.test(quoted)
      ? new RegExp(`\\b${quoted}\\b`).exec(lineText)?.index ?? -1
      : lineText.indexOf(quoted);
    if (at >= 0) return [at, at + quoted.length];
  }
  const indent = lineText.length - lineText.trimStart().length;
  return indent < lineText.length ? [indent, lineText.trimEnd().length] : [0, lineText.length];
}

/** "2 errors, 1 warning" */
export function countMessages(messages: readonly CompilerMessage[]): string {
  const parts: string[] = [];
  for (const severity of ['error', 'warning', 'note'] as const) {
    const n = messages.filter((m) => m.severity === severity).length;
    if (n > 0) parts.push(`${n} ${severity}${n === 1 ? '' : 's'}`);
  }
  return parts.join(', ');
}
