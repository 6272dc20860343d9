// SPDX-License-Identifier: Apache-2.0
// Colours of the editors, for light and dark at once. Every text colour keeps 4.5:1 on the page's background, on a
// changed line and on a removed one.
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { EditorView } from '@codemirror/view';
import { tags as t } from '@lezer/highlight';

const both = ([light, dark]: readonly [string, string]) => `light-dark(${light}, ${dark})`;

/** [light, dark]. Those that are left out are the page's own. */
export const kInk = {
  keyword: ['#8a1f78', '#eab0e2'],
  type: ['#0b5585', '#8fcdf4'],
  number: ['#853f00', '#f4c08c'],
  string: ['#1b5d2d', '#9edaac'],
  call: ['#1b4aa0', '#b0c9ff'],
  meta: ['#654700', '#dfcb88'],
  added: ['#1b6b30', '#7fd796'],
  removed: ['#a3241c', '#ff9d94'],
} as const;
export const kGrounds = {
  added: ['#e2f5e6', '#13301d'],
  removed: ['#fdeae8', '#3a1d1c'],
  changed: ['#fff3d4', '#362c11'],
  addedText: ['#c9ebd1', '#184527'],
  removedText: ['#fad9d5', '#542220'],
  changedText: ['#f9e6ad', '#473a0f'],
  selection: ['#c9def7', '#273f5d'],
  same: ['#e2e8f0', '#2e3743'],
  found: ['#f5d468', '#4d3d00'],
} as const;

const text = 'var(--text)';
const background = 'var(--ground)';
const quiet = 'var(--text-2)';
const line = 'var(--line)';
const edge = 'var(--line-strong)';
const accent = 'var(--accent)';
const added = both(kGrounds.added);
const removed = both(kGrounds.removed);
const changed = both(kGrounds.changed);
const addedText = both(kGrounds.addedText);
const removedText = both(kGrounds.removedText);
const changedText = both(kGrounds.changedText);

export const editorHighlight = syntaxHighlighting(
  HighlightStyle.define([
    { tag: [t.comment, t.lineComment, t.blockComment], color: quiet, fontStyle: 'italic' },
    { tag: [t.keyword, t.controlKeyword, t.modifier, t.operatorKeyword], color: both(kInk.keyword) },
    { tag: [t.typeName, t.standard(t.typeName), t.className, t.namespace], color: both(kInk.type) },
    { tag: [t.number, t.bool, t.literal], color: both(kInk.number) },
    { tag: [t.string, t.character, t.special(t.string)], color: both(kInk.string) },
    { tag: [t.function(t.variableName), t.function(t.propertyName), t.standard(t.variableName)], color: both(kInk.call) },
    { tag: [t.meta, t.processingInstruction, t.annotation], color: both(kInk.meta) },
    { tag: [t.labelName], color: both(kInk.type), fontWeight: '600' },
    { tag: [t.propertyName, t.variableName, t.operator, t.punctuation, t.bracket], color: text },
    { tag: t.invalid, color: text, textDecoration: 'underline' },
  ]),
);

export const editorTheme = EditorView.theme({
  '&': { color: text, backgroundColor: background, fontSize: 'var(--code-size)', height: '100%' },
  '&.cm-focused': { outline: 'none' },
  '&.cm-focused .cm-content': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5', overflow: 'auto' },
  '.cm-content': { caretColor: text, padding: '4px 0' },
  '.cm-cursor, .cm-dropCursor': { borderLeftColor: text, borderLeftWidth: '2px' },
  '.cm-line': { padding: '0 8px' },
  '.cm-gutters': { backgroundColor: background, color: quiet, borderRight: `1px solid ${line}` },
  '.cm-activeLine': { backgroundColor: 'light-dark(#0000000a, #ffffff0d)' },
  '.cm-activeLineGutter': { backgroundColor: 'transparent', color: text },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground, .cm-content ::selection': {
    backgroundColor: both(kGrounds.selection),
  },
  '.cm-selectionMatch': { backgroundColor: both(kGrounds.same) },
  '.cm-searchMatch': { backgroundColor: changedText, outline: `1px solid ${edge}` },
  '.cm-searchMatch.cm-searchMatch-selected': { backgroundColor: both(kGrounds.found), outline: `2px solid ${accent}` },
  '&.cm-focused .cm-matchingBracket, .cm-matchingBracket': { backgroundColor: 'transparent', outline: `1px solid ${accent}` },
  '.cm-panels': { backgroundColor: 'var(--ground-2)', color: text },
  '.cm-panels.cm-panels-top': { borderBottom: `1px solid ${line}` },
  '.cm-panels.cm-panels-bottom': { borderTop: `1px solid ${line}` },
  '.cm-panel.cm-search': { padding: '6px 28px 6px 8px' },
  '.cm-panel.cm-search [name=close]': { color: text, minWidth: '24px', minHeight: '24px' },
  '.cm-panel.cm-search label': { fontSize: '90%' },
  '.cm-textfield, .cm-button': { fontSize: '12px', minHeight: '24px' },
  '.cm-textfield': { backgroundColor: background, color: text, border: `1px solid ${edge}`, borderRadius: '3px' },
  '.cm-button': { backgroundImage: 'none', backgroundColor: 'var(--ground-3)', color: text, border: `1px solid ${edge}`, borderRadius: '3px' },
  '.cm-textfield:focus-visible, .cm-button:focus-visible, .cm-panel [name=close]:focus-visible': { outline: `2px solid ${accent}`, outlineOffset: '1px' },
  '.cm-tooltip': { backgroundColor: 'var(--ground-2)', color: text, border: `1px solid ${edge}` },
  '.cm-diagnostic': { whiteSpace: 'pre-wrap', padding: '4px 8px', maxWidth: '60ch' },
  '.cm-diagnostic-error': { borderLeft: `4px solid var(--bad)` },
  '.cm-diagnostic-warning': { borderLeft: `4px solid var(--warn)` },
  '.cm-diagnostic-info': { borderLeft: `4px solid ${quiet}` },
  // Waves from the library are an image whose colour cannot follow the theme; a wavy underline can.
  '.cm-lintRange': { backgroundImage: 'none', textDecorationLine: 'underline', textDecorationStyle: 'wavy', textUnderlineOffset: '3px' },
  '.cm-lintRange-error': { textDecorationColor: 'var(--bad)', backgroundColor: removed },
  '.cm-lintRange-warning': { textDecorationColor: 'var(--warn)' },
  '.cm-lintRange-info': { textDecorationColor: quiet },
  '.cm-lintRange-active': { backgroundColor: changed },
  '.cm-gutter-lint': { width: '14px' },
  '.cm-lint-marker': { width: '10px', height: '10px' },

  // Against the original: background and a sign in the gutter, never colour alone.
  '&.cm-merge-a .cm-changedLine, .cm-deletedChunk': { backgroundColor: removed },
  '&.cm-merge-b .cm-changedLine, .cm-inlineChangedLine': { backgroundColor: added },
  '&.cm-merge-a .cm-changedText, .cm-deletedChunk .cm-deletedText': { background: removedText },
  '&.cm-merge-b .cm-changedText': { background: addedText },
  '&.cm-merge-b .cm-deletedText': { background: removedText },
  '.cm-changeGutter': { width: '1.2em', paddingLeft: '2px' },
  '.cm-gutterElement.cm-changedLineGutter, .cm-gutterElement.cm-deletedLineGutter': { background: 'transparent' },
  '&.cm-merge-b .cm-changedLineGutter::before': { content: '"+"', color: both(kInk.added), fontWeight: '700' },
  '&.cm-merge-a .cm-changedLineGutter::before, .cm-deletedLineGutter::before': { content: '"−"', color: both(kInk.removed), fontWeight: '700' },
  '.cm-deletedChunk': { paddingLeft: '8px' },
  '.cm-deletedChunk .cm-chunkButtons button': {
    font: 'inherit', fontSize: '11px', color: text, backgroundColor: 'var(--ground-3)', border: `1px solid ${edge}`, borderRadius: '3px', padding: '0 6px', minHeight: '24px',
  },
  '.cm-collapsedLines': { color: `${text} !important`, background: 'var(--ground-2) !important' },
  // The glyph that the library uses is in few fonts.
  '.cm-collapsedLines::before': { content: '"⋯" !important' },
  '.cm-collapsedLines::after': { content: '"⋯" !important' },

  '.cm-row-only-a': { backgroundColor: removed },
  '.cm-row-only-b': { backgroundColor: added },
  '.cm-row-changed': { backgroundColor: changed },
  '.cm-row-part': { backgroundColor: changedText },
  '.cm-row-filler': { backgroundImage: `repeating-linear-gradient(-45deg, ${line} 0 1px, transparent 1px 6px)` },
  '.cm-row-sign': { width: '1.2em', textAlign: 'center' },
});

/** Nonce of this page's Content-Security-Policy: without it no style of the editor is let in. */
export function cspNonce(): string {
  const nonce = document.querySelector('meta[name="csp-nonce"]')?.getAttribute('content') ?? '';
  return nonce.startsWith('__') ? '' : nonce;
}
