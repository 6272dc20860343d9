// SPDX-License-Identifier: Apache-2.0
// Two disassemblies face to face, scrolling together. Fillers make both the same length, so one scroll position is
// right for both.
import { defaultKeymap } from '@codemirror/commands';
import { highlightSelectionMatches, openSearchPanel, search, searchKeymap } from '@codemirror/search';
import { EditorState, RangeSetBuilder, StateField, type Extension } from '@codemirror/state';
import { Decoration, drawSelection, EditorView, gutter, GutterMarker, highlightActiveLine, keymap, lineNumbers, type DecorationSet } from '@codemirror/view';
import { alignLines, changedPart, lineKey, type Aligned, type LineState, type Side } from './align';
import { languageExtension } from './languages';
import { cspNonce, editorHighlight, editorTheme } from './theme';

export interface DisassemblyConfig {
  left: HTMLElement;
  right: HTMLElement;
  before: string;
  after: string;
  labels: [string, string];
  /** Register numbers and ids do not count as differences. */
  ids: boolean;
}

class Sign extends GutterMarker {
  constructor(readonly sign: string) {
    super();
  }
  override eq(other: Sign): boolean {
    return other.sign === this.sign;
  }
  override toDOM(): Node {
    return document.createTextNode(this.sign);
  }
}

const kSigns: Record<'a' | 'b', Partial<Record<LineState, Sign>>> = {
  a: { changed: new Sign('≠'), only: new Sign('−') },
  b: { changed: new Sign('≠'), only: new Sign('+') },
};

export class DisassemblyView {
  readonly aligned: Aligned;
  readonly #views: [EditorView, EditorView];
  #at = -1;
  #following = false;

  constructor(config: DisassemblyConfig) {
    this.aligned = alignLines(config.before, config.after, (line) => lineKey(line, config.ids));
    const make = (side: 'a' | 'b', parent: HTMLElement, label: string) =>
      new EditorView({ parent, state: EditorState.create({ doc: this.aligned[side].text, extensions: this.#extensions(side, label) }) });
    this.#views = [make('a', config.left, config.labels[0]), make('b', config.right, config.labels[1])];
    const [a, b] = this.#views;
    a.scrollDOM.addEventListener('scroll', () => this.#follow(a, b));
    b.scrollDOM.addEventListener('scroll', () => this.#follow(b, a));
  }

  /** Index of the stretch shown, from 1, of how many. */
  position(): [number, number] {
    return [this.#at + 1, this.aligned.stretches.length];
  }

  step(by: 1 | -1): void {
    const n = this.aligned.stretches.length;
    if (n === 0) return;
    this.#at = this.#at < 0 && by < 0 ? n - 1 : (this.#at + by + n) % n;
    const row = (this.aligned.stretches[this.#at] ?? 0) + 1;
    for (const view of this.#views) {
      const line = view.state.doc.line(Math.min(row, view.state.doc.lines));
      view.dispatch({ selection: { anchor: line.from }, effects: EditorView.scrollIntoView(line.from, { y: 'center' }) });
    }
  }

  find(): void {
    const view = this.#views[0].hasFocus ? this.#views[0] : this.#views[1];
    openSearchPanel(view);
  }

  destroy(): void {
    for (const view of this.#views) view.destroy();
  }

  // The one that is set reports a scroll of its own; it is not followed back.
  #follow(from: EditorView, to: EditorView): void {
    if (this.#following) return;
    this.#following = true;
    to.scrollDOM.scrollTop = from.scrollDOM.scrollTop;
    to.scrollDOM.scrollLeft = from.scrollDOM.scrollLeft;
    requestAnimationFrame(() => (this.#following = false));
  }

  #extensions(side: 'a' | 'b', label: string): Extension {
    const own = this.aligned[side];
    const other = this.aligned[side === 'a' ? 'b' : 'a'];
    return [
      EditorView.cspNonce.of(cspNonce()),
      lineNumbers({ formatNumber: (n) => String(own.numbers[n - 1] || '') }),
      gutter({
        class: 'cm-row-sign',
        lineMarker: (view, line) => kSigns[side][own.states[view.state.doc.lineAt(line.from).number - 1] ?? 'same'] ?? null,
        initialSpacer: () => new Sign('≠'),
      }),
      drawSelection(),
      highlightActiveLine(),
      highlightSelectionMatches(),
      search({ top: false }),
      languageExtension('assembly'),
      editorTheme,
      editorHighlight,
      EditorState.readOnly.of(true),
      rowMarks(side, own, other),
      EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0', 'aria-readonly': 'true', spellcheck: 'false' }),
      keymap.of([
        { key: 'Alt-ArrowDown', run: () => (this.step(1), true), preventDefault: true },
        { key: 'Alt-ArrowUp', run: () => (this.step(-1), true), preventDefault: true },
        ...searchKeymap,
        ...defaultKeymap,
      ]),
    ];
  }
}

function rowMarks(side: 'a' | 'b', own: Side, other: Side): Extension {
  const lines = {
    only: Decoration.line({ class: `cm-row-only-${side}` }),
    changed: Decoration.line({ class: 'cm-row-changed' }),
    filler: Decoration.line({ class: 'cm-row-filler' }),
  };
  const part = Decoration.mark({ class: 'cm-row-part' });
  const facing = other.text.split('\n');
  return StateField.define<DecorationSet>({
    create(state) {
      const builder = new RangeSetBuilder<Decoration>();
      own.states.forEach((s, i) => {
        if (s === 'same') return;
        const line = state.doc.line(i + 1);
        builder.add(line.from, line.from, lines[s]);
        if (s !== 'changed') return;
        const [from, to] = changedPart(line.text, facing[i] ?? '').a;
        if (to > from) builder.add(line.from + from, line.from + to, part);
      });
      return builder.finish();
    },
    update: (marks) => marks,
    provide: (field) => EditorView.decorations.from(field),
  });
}
