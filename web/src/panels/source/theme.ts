// SPDX-License-Identifier: Apache-2.0
// Colours of the editors, for light and dark at once. Every text colour keeps 4.5:1 on the page's background, on a
// changed line and on a removed one.
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { EditorView } from '@codemirror/view';
import { tags as t } from '@lezer/highlight';

const both = (light: string, dark: string) => `light-dark(${light}, ${dark})`;

const text = 'var(--text)';
const background = 'var(--ground)';
const quiet = 'var(--text-2)';
const line = 'var(--line)';
const edge = 'var(--line-strong)';
const added = both('#e2f5e6', '#13301d');
const removed = both('#fdeae8', '#3a1d1c');
const changed = both('#fff3d4', '#362c11');
const addedText = both('#b4e3bf', '#1f5a33');
const removedText = both('#f7c3be', '#6b2a27');
const changedText = both('#f6dd92', '#5e4c12');
const accent = 'var(--accent)';

export const editorHighlight = syntaxHighlighting(
  HighlightStyle.define([
    { tag: [t.comment, t.lineComment, t.blockComment], color: quiet, fontStyle: 'italic' },
    { tag: [t.keyword, t.controlKeyword, t.modifier, t.operatorKeyword], color: both('#8a1f78', '#e8a6df') },
    { tag: [t.typeName, t.standard(t.typeName), t.className, t.namespace], color: both('#0b5585', '#84c7f2') },
    { tag: [t.number, t.bool, t.literal], color: both('#853f00', '#f2b980') },
    { tag: [t.string, t.character, t.special(t.string)], color: both('#1b5d2d', '#95d6a5') },
    { tag: [t.function(t.variableName), t.function(t.propertyName), t.standard(t.variableName)], color: both('#1b4aa0', '#a5c2ff') },
    { tag: [t.meta, t.processingInstruction, t.annotation], color: both('#654700', '#dcc77f') },
    { tag: [t.labelName], color: both('#0b5585', '#84c7f2'), fontWeight: '600' },
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
  '.cm-activeLine': { backgroundColor: both('#0000000a', '#ffffff0d') },
  '.cm-activeLineGutter': { backgroundColor: 'transparent', color: text },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground, .cm-content ::selection': {
    backgroundColor: both('#bcd6f5', '#2b4668'),
  },
  '.cm-selectionMatch': { backgroundColor: both('#e2e8f0', '#323c49') },
  '.cm-searchMatch': { backgroundColor: changedText, outline: `1px solid ${both('#8a6d00', '#c9ab3f')}` },
  '.cm-searchMatch.cm-searchMatch-selected': { backgroundColor: both('#f2c230', '#8a6b00') },
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
  '&.cm-merge-b .cm-changedLineGutter::before': { content: '"+"', color: both('#1b6b30', '#7fd796'), fontWeight: '700' },
  '&.cm-merge-a .cm-changedLineGutter::before, .cm-deletedLineGutter::before': { content: '"−"', color: both('#a3241c', '#ff9d94'), fontWeight: '700' },
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
