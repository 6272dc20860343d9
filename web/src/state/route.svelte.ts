// SPDX-License-Identifier: Apache-2.0
// Where the page is, kept in the address: #/s/SESSION/panel?key=value.

export const kPanels = ['dispatches', 'capture', 'source', 'code', 'runs', 'comparison', 'roofline', 'validation', 'save', 'history'] as const;
export type Panel = (typeof kPanels)[number];

export interface Place {
  session: string; // empty: the list of sessions
  panel: Panel;
  query: Record<string, string>;
}

export function parsePlace(hash: string): Place {
  const [path = '', search = ''] = hash.replace(/^#/, '').split('?', 2);
  const [, s, session = '', panel = ''] = path.split('/');
  const query = Object.fromEntries(new URLSearchParams(search));
  if (s !== 's' || !session) return { session: '', panel: 'dispatches', query };
  const known = kPanels.find((one) => one === panel);
  return { session: decodeURIComponent(session), panel: known ?? 'dispatches', query };
}

export function placeHash(place: Place): string {
  const query = new URLSearchParams(Object.entries(place.query).filter(([, value]) => value !== '')).toString();
  if (!place.session) return '#/' + (query ? `?${query}` : '');
  return `#/s/${encodeURIComponent(place.session)}/${place.panel}${query ? `?${query}` : ''}`;
}

const kWriteAfter = 250;

class Route {
  place = $state<Place>(parsePlace(location.hash));
  /** The last query of each panel, so that going back finds the same selection. */
  private writing: ReturnType<typeof setTimeout> | undefined;
  private remembered = new Map<string, Record<string, string>>();

  constructor() {
    const read = () => {
      if (location.hash.startsWith('#t=')) return; // a new token for the same place: App
      clearTimeout(this.writing);
      this.writing = undefined;
      this.place = parsePlace(location.hash);
    };
    window.addEventListener('hashchange', read);
    window.addEventListener('popstate', read);
    window.addEventListener('pagehide', () => this.write());
  }

  /** Another panel or session: a new entry of the history. Without `query`: the one that the panel had last. */
  go(session: string, panel: Panel = 'dispatches', query?: Record<string, string>): void {
    this.remembered.set(`${this.place.session}/${this.place.panel}`, this.place.query);
    const place: Place = { session, panel, query: query ?? this.remembered.get(`${session}/${panel}`) ?? {} };
    if (placeHash(place) === placeHash(this.place)) return;
    if (this.writing !== undefined) this.write();
    history.pushState(null, '', placeHash(place));
    this.place = place;
  }

  /** What a panel has selected: replaces the entry. An empty value takes a key out. */
  set(changes: Record<string, string>): void {
    const query = { ...this.place.query, ...changes };
    for (const [key, value] of Object.entries(query)) if (value === '') delete query[key];
    this.place = { ...this.place, query };
    // Browsers refuse more than a few a second, and moving through a table is faster than that.
    this.writing ??= setTimeout(() => this.write(), kWriteAfter);
  }

  /** The place into the address. */
  write(): void {
    clearTimeout(this.writing);
    this.writing = undefined;
    if (placeHash(this.place) !== location.hash) history.replaceState(null, '', placeHash(this.place));
  }

  get(key: string): string {
    return this.place.query[key] ?? '';
  }
}

export const route = new Route();
