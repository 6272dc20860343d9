// SPDX-License-Identifier: Apache-2.0
// Dark or light: as the system has it, until the user says otherwise.
export type Theme = 'system' | 'light' | 'dark';
const kKey = 'klab.theme';

class ThemeChoice {
  choice = $state<Theme>('system');
}
export const theme = new ThemeChoice();

function stored(): Theme {
  try {
    const value = localStorage.getItem(kKey);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    return 'system'; // storage is forbidden: the choice holds for this page
  }
}

export function applyTheme(choice: Theme = stored()): void {
  theme.choice = choice;
  if (choice === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  try {
    localStorage.setItem(kKey, choice);
  } catch {
    /* as above */
  }
}

/** What is seen now, and the other one. */
export function toggleTheme(): void {
  const dark = theme.choice === 'dark' || (theme.choice === 'system' && matchMedia('(prefers-color-scheme: dark)').matches);
  applyTheme(dark ? 'light' : 'dark');
}
