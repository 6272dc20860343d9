// SPDX-License-Identifier: Apache-2.0
// Everything that a key can do: commands register here, `?` lists them and Ctrl+Shift+P runs them by name.
// Single letters are ignored while somebody types; combinations with Ctrl are not.

import { untrack } from 'svelte';

export interface Command {
  id: string;
  title: string;
  /** "c", "Ctrl+S", "Ctrl+Shift+P", "g d" (one after the other), "Enter", "[" */
  keys?: string;
  group?: string;
  run: () => void;
  /** Left out of list and keys when false. */
  when?: () => boolean;
}

class Keyboard {
  commands = $state.raw<Command[]>([]);
  palette = $state(false);
  help = $state(false);
  private first = '';
  private firstAt = 0;

  /** Adds commands until the returned function is called; the newest of equal keys wins. */
  add(commands: Command[]): () => void {
    this.commands = [...this.commands, ...commands];
    return () => {
      this.commands = this.commands.filter((one) => !commands.includes(one));
    };
  }

  get usable(): Command[] {
    return this.commands.filter((one) => one.when?.() ?? true);
  }

  handle(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.isComposing) return;
    const key = keyName(event);
    if (!key) return;
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (plain && (typing(event.target) || document.querySelector('dialog[open]'))) return;
    if (document.querySelector('dialog[open]') && key !== 'Ctrl+Shift+P') return;
    const sequence = this.first && event.timeStamp - this.firstAt < 1000 ? `${this.first} ${key}` : key;
    this.first = '';
    const usable = this.usable;
    const found = usable.findLast((one) => one.keys === sequence) ?? usable.findLast((one) => one.keys === key);
    if (found) {
      // A focused button or link has Enter and space to itself.
      if ((key === 'Enter' || key === 'Space') && actsItself(event.target)) return;
      event.preventDefault();
      found.run();
    } else if (plain && usable.some((one) => one.keys?.startsWith(`${key} `))) {
      this.first = key;
      this.firstAt = event.timeStamp;
    }
  }
}

export const keyboard = new Keyboard();

/** In a component's script: the commands are there while the component is. */
export function useCommands(make: () => Command[]): void {
  $effect(() => {
    const commands = make();
    return untrack(() => keyboard.add(commands)); // adding reads the list that it changes
  });
}

function keyName(event: KeyboardEvent): string {
  const key = event.key === ' ' ? 'Space' : event.key;
  if (key === 'Control' || key === 'Shift' || key === 'Alt' || key === 'Meta') return '';
  const held = event.ctrlKey || event.metaKey;
  const name = held && key.length === 1 ? key.toUpperCase() : key;
  // Of a plain character Shift is part of it already: "?" and "A" are themselves.
  const shift = event.shiftKey && (held || key.length > 1);
  return `${held ? 'Ctrl+' : ''}${event.altKey ? 'Alt+' : ''}${shift ? 'Shift+' : ''}${name}`;
}

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.closest('.cm-editor')) return true;
  if (target instanceof HTMLInputElement) return !['checkbox', 'radio', 'button', 'range'].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

const actsItself = (target: EventTarget | null) => target instanceof HTMLElement && target.closest('button, a[href], summary, [role="tab"], [role="grid"]') !== null;

const kMac = typeof navigator !== 'undefined' && /Mac|iP(hone|ad)/.test(navigator.userAgent);
/** As it stands on this keyboard. */
export const keyText = (keys: string): string => (kMac ? keys.replace('Ctrl+', '⌘').replace('Shift+', '⇧') : keys);
