// SPDX-License-Identifier: Apache-2.0
// The source editor: one text, alone or beside the original, with the compiler's messages in place.
// Everything of CodeMirror is behind this module and disassembly.ts, which load when a panel first needs them.
import { defaultKeymap, history, historyField, historyKeymap, indentWithTab } from '@codemirror/commands';
import { bracketMatching, indentOnInput, indentUnit } from '@codemirror/language';
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from '@codemirror/lint';
import { goToNextChunk, goToPreviousChunk, MergeView, unifiedMergeView } from '@codemirror/merge';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { EditorSelection, EditorState, Text, type Extension } from '@codemirror/state';
import {
  crosshairCursor, drawSelection, dropCursor, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers, rectangularSelection,
} from '@codemirror/view';
import { languageExtension } from './languages';
import { isOfText, rangeInLine, type CompilerMessage } from './messages';
import { cspNonce, editorHighlight, editorTheme } from './theme';

export { DisassemblyView } from './disassembly';

/** alone; changes within the text; the original beside it. */
export type EditorMode = 'edit' | 'inline' | 'side';

export interface EditorConfig {
  parent: HTMLElement;
  text: string;
  original: string;
  language: string;
  mode: EditorMode;
  readOnly: boolean;
  label: string;
  changed: () => void;
  build: () => void;
}

export class SourceEditor {
  readonly #config: EditorConfig;
  #view!: EditorView;
  #merge: MergeView | undefined;
  #mode: EditorMode;
  #original: string;
  #language: string;
  #readOnly: boolean;
  #label: string;
  #diagnostics: { list: readonly CompilerMessage[]; file: string } = { list: [], file: '' };

  constructor(config: EditorConfig) {
    this.#config = config;
    this.#mode = config.mode;
    this.#original = config.original;
    this.#language = config.language;
    this.#readOnly = config.readOnly;
    this.#label = config.label;
    this.#make(config.text, undefined, undefined);
  }

  text(): string {
    return this.#view.state.doc.toString();
  }

  /** Another text: another history of changes, so that undo cannot bring the one before back under a new name. */
  open(text: string, settings: { original: string; language: string; readOnly: boolean; label: string }): void {
    this.#original = settings.original;
    this.#language = settings.language;
    this.#readOnly = settings.readOnly;
    this.#label = settings.label;
    this.#diagnostics = { list: [], file: '' };
    this.#make(text, undefined, undefined);
  }

  /** As one change that can be undone. */
  replace(text: string): void {
    const doc = this.#view.state.doc;
    this.#view.dispatch({ changes: { from: 0, to: doc.length, insert: text }, selection: { anchor: 0 }, userEvent: 'input.replace' });
  }

  setMode(mode: EditorMode): void {
    if (mode === this.#mode) return;
    this.#mode = mode;
    this.#again();
  }

  setOriginal(original: string): void {
    if (original === this.#original) return;
    this.#original = original;
    if (this.#mode !== 'edit') this.#again();
  }

  setMessages(list: readonly CompilerMessage[], file: string): void {
    this.#diagnostics = { list, file };
    this.#showMessages();
  }

  goTo(message: CompilerMessage): void {
    const doc = this.#view.state.doc;
    if (message.line < 1) return;
    const line = doc.line(Math.min(message.line, doc.lines));
    const [from] = rangeInLine(line.text, message);
    this.#view.dispatch({
      selection: { anchor: line.from + Math.min(from, line.length) },
      effects: EditorView.scrollIntoView(line.from, { y: 'center' }),
    });
    this.#view.focus();
  }

  nextChange(): void {
    goToNextChunk(this.#view);
    this.#view.focus();
  }

  previousChange(): void {
    goToPreviousChunk(this.#view);
    this.#view.focus();
  }

  focus(): void {
    this.#view.focus();
  }

  destroy(): void {
    this.#merge?.destroy();
    if (!this.#merge) this.#view.destroy();
  }

  #again(): void {
    const { state, hasFocus } = this.#view;
    const line = state.doc.lineAt(this.#view.lineBlockAtHeight(this.#top()).from).number;
    this.#make(state.doc, state.selection, state.field(historyField, false));
    const doc = this.#view.state.doc;
    this.#view.dispatch({ effects: EditorView.scrollIntoView(doc.line(Math.min(line, doc.lines)).from, { y: 'start' }) });
    if (hasFocus) this.#view.focus();
  }

  #top(): number {
    const scroller = this.#merge ? this.#merge.dom : this.#view.scrollDOM;
    return scroller.scrollTop;
  }

  #make(doc: string | Text, selection: EditorSelection | undefined, past: unknown): void {
    if (this.#merge) this.#merge.destroy();
    else (this.#view as EditorView | undefined)?.destroy();
    this.#merge = undefined;
    const text = typeof doc === 'string' ? Text.of(doc.split(/\r\n?|\n/)) : doc;
    const own = [this.#own(past), this.#shared(this.#label, this.#readOnly)];
    const parent = this.#config.parent;
    const start = selection ? { selection } : {};
    if (this.#mode === 'side') {
      this.#merge = new MergeView({
        parent,
        a: { doc: this.#original, extensions: [this.#shared('Original source', true), EditorView.lineWrapping] },
        b: { doc: text, ...start, extensions: [own, EditorView.lineWrapping] },
        ...(this.#readOnly ? {} : { revertControls: 'a-to-b' as const, renderRevertControl: revertButton }),
        gutter: true,
        diffConfig: { scanLimit: 2000, timeout: 200 },
      });
      this.#view = this.#merge.b;
    } else {
      const inline = this.#mode === 'inline'
        ? unifiedMergeView({
            original: this.#original, gutter: true, diffConfig: { scanLimit: 2000, timeout: 200 },
            mergeControls: this.#readOnly ? false : inlineControl,
          })
        : [];
      this.#view = new EditorView({ parent, state: EditorState.create({ doc: text, ...start, extensions: [own, inline] }) });
    }
    this.#showMessages();
  }

  #own(past: unknown): Extension {
    return [
      history(),
      past === undefined ? [] : historyField.init(() => past),
      lintGutter(),
      keymap.of([
        { key: 'Mod-s', preventDefault: true, run: () => (this.#config.build(), true) },
        { key: 'Alt-ArrowDown', run: goToNextChunk, preventDefault: true },
        { key: 'Alt-ArrowUp', run: goToPreviousChunk, preventDefault: true },
        ...lintKeymap,
      ]),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) this.#config.changed();
      }),
    ];
  }

  #shared(label: string, readOnly: boolean): Extension {
    return [
      EditorView.cspNonce.of(cspNonce()),
      lineNumbers(),
      highlightActiveLineGutter(),
      highlightSpecialChars(),
      drawSelection(),
      dropCursor(),
      EditorState.allowMultipleSelections.of(true),
      indentUnit.of('  '),
      indentOnInput(),
      bracketMatching(),
      rectangularSelection(),
      crosshairCursor(),
      highlightActiveLine(),
      highlightSelectionMatches(),
      search({ top: true }),
      languageExtension(this.#language),
      editorTheme,
      editorHighlight,
      EditorState.readOnly.of(readOnly),
      EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0', ...(readOnly ? { 'aria-readonly': 'true' } : {}), spellcheck: 'false' }),
      keymap.of([...searchKeymap, ...historyKeymap, ...(readOnly ? [] : [indentWithTab]), ...defaultKeymap]),
    ];
  }

  #showMessages(): void {
    const { list, file } = this.#diagnostics;
    const doc = this.#view.state.doc;
    const diagnostics: Diagnostic[] = list
      .filter((m) => m.line >= 1 && m.line <= doc.lines && isOfText(m, file))
      .map((m) => {
        const line = doc.line(m.line);
        const [from, to] = rangeInLine(line.text, m);
        return { from: line.from + from, to: line.from + to, severity: m.severity === 'note' ? 'info' : m.severity, message: m.text };
      });
    this.#view.dispatch(setDiagnostics(this.#view.state, diagnostics));
  }
}

function revertButton(): HTMLElement {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = '→';
  button.title = 'Take the original lines back';
  button.setAttribute('aria-label', button.title);
  return button;
}

function inlineControl(type: 'reject' | 'accept', action: (e: MouseEvent) => void): HTMLElement {
  const button = document.createElement('button');
  button.type = 'button';
  button.name = type;
  if (type === 'accept') {
    button.hidden = true; // "accept" would only stop showing the change
    return button;
  }
  button.textContent = 'Take back';
  button.title = 'Take the original lines back';
  button.addEventListener('mousedown', action);
  button.addEventListener('keydown', (e) => {
    if (e.key === 'Enter' || e.key === ' ') action(e as unknown as MouseEvent);
  });
  return button;
}
