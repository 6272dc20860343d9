// SPDX-License-Identifier: Apache-2.0
// Panels by name. Each is read when it is opened first, so that the page is there at once.
import type { Component } from 'svelte';
import type { SessionStore } from '../state/session.svelte';
import type { Panel } from '../state/route.svelte';

export type PanelComponent = Component<{ session: SessionStore }>;

const files = import.meta.glob<{ default: PanelComponent }>(['./*.svelte', '!./Sessions.svelte']);

export const panelInfo: Record<Panel, { title: string; file: string; key: string; hint: string }> = {
  dispatches: { title: 'Dispatches', file: 'Dispatches', key: 'd', hint: 'what the program launches, and which kernel to tune' },
  capture: { title: 'Capture', file: 'Capture', key: 'c', hint: 'take one dispatch with its inputs' },
  source: { title: 'Source', file: 'Source', key: 's', hint: 'find the source, edit and build variants' },
  code: { title: 'Code', file: 'Code', key: 'i', hint: 'disassembly and resources beside the baseline' },
  runs: { title: 'Runs', file: 'Runs', key: 'r', hint: 'time the baseline and variants' },
  comparison: { title: 'Comparison', file: 'Comparison', key: 'm', hint: 'is a variant right, and is it faster' },
  roofline: { title: 'Roofline', file: 'Roofline', key: 'o', hint: 'what the device attains, and how near a run is' },
  validation: { title: 'Validation', file: 'Validation', key: 'v', hint: 'where results differ' },
  save: { title: 'Save', file: 'Save', key: 'w', hint: 'write the winner into its source file' },
  history: { title: 'History', file: 'History', key: 'h', hint: 'who did what, and the logs' },
};

const loaded = new Map<Panel, PanelComponent>();

/** Errors: when the file cannot be read, as after the server has gone. */
export async function loadPanel(panel: Panel): Promise<PanelComponent> {
  const known = loaded.get(panel);
  if (known) return known;
  const file = files[`./${panelInfo[panel].file}.svelte`];
  if (!file) throw new Error(`this build has no panel "${panel}"`);
  const component = (await file()).default;
  loaded.set(panel, component);
  return component;
}

/** All of them, one after the other; what fails is read again when it is opened. */
export async function preloadPanels(): Promise<void> {
  for (const panel of Object.keys(panelInfo) as Panel[]) await loadPanel(panel).catch(() => undefined);
}
