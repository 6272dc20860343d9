// SPDX-License-Identifier: Apache-2.0
// Short words about what just happened: shown at the bottom, and read out. Nothing here has to be acted on.

export type Tone = 'plain' | 'good' | 'bad';
export interface Said {
  id: number;
  text: string;
  tone: Tone;
}

const kShown = 5000;
let next = 1;

class Status {
  list = $state.raw<Said[]>([]);
}
export const status = new Status();

export function say(text: string, tone: Tone = 'plain'): void {
  const said = { id: next++, text, tone };
  status.list = [...status.list.slice(-2), said];
  setTimeout(() => unsay(said.id), tone === 'bad' ? 2 * kShown : kShown);
}

export const unsay = (id: number) => (status.list = status.list.filter((one) => one.id !== id));
