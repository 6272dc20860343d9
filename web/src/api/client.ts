// SPDX-License-Identifier: Apache-2.0
// One call of a verb. Not here: what happens by itself (stream.ts), long work (jobs.ts).
import type { Answer, Arguments, Verb } from './types';

/** What the server, or the way to it, says went wrong. `code` is one of klab's, or `no_connection`, `no_token`. */
export class CallError extends Error {
  override readonly name = 'CallError';
  constructor(
    readonly code: string,
    readonly what: string,
    readonly hint: string = '',
    readonly verb: string = '',
  ) {
    super(what);
  }

  /** The work was ended on purpose: nothing that a person needs to be told as a fault. */
  get cancelled(): boolean {
    return this.code === 'interrupted' || this.code === 'cancelled';
  }
  /** Nothing was answered: it may be tried again. */
  get offline(): boolean {
    return this.code === 'no_connection';
  }
}

/** Anything that was thrown, as one kind of error. */
export function asCallError(thrown: unknown, verb = ''): CallError {
  if (thrown instanceof CallError) return thrown;
  if (thrown instanceof DOMException && thrown.name === 'AbortError') return new CallError('cancelled', 'the call was given up', '', verb);
  if (thrown instanceof Error) return new CallError('internal', thrown.message, 'reload the page', verb);
  return new CallError('internal', String(thrown), 'reload the page', verb);
}

const kTokenKey = 'klab.token';
let token = '';
const listeners = new Set<() => void>();

/**
 * Takes `#t=TOKEN` out of the address, so that it is in no history and no bookmark, and keeps it for this tab.
 * Returns the rest of the fragment ("#/s/..."), as it was given with `go=`.
 */
export function takeToken(): string {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const given = fragment.get('t');
  if (given) {
    token = given;
    sessionStorage.setItem(kTokenKey, given);
    const rest = fragment.get('go') ?? '';
    history.replaceState(null, '', location.pathname + location.search + (rest ? `#${rest}` : ''));
  } else {
    token ||= sessionStorage.getItem(kTokenKey) ?? '';
  }
  return token;
}

export const hasToken = () => token !== '';

/** Called when the server refuses the token. */
export function onRefusal(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function dropToken(): void {
  token = '';
  sessionStorage.removeItem(kTokenKey);
  for (const listener of listeners) listener();
}

/** A request to the server with the token. Errors: CallError no_connection, no_token. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, {
      ...init,
      cache: 'no-store',
      headers: { ...init.headers, Authorization: `Bearer ${token}` },
    });
  } catch (thrown) {
    if (thrown instanceof DOMException && thrown.name === 'AbortError') throw asCallError(thrown);
    throw new CallError('no_connection', 'klab serve does not answer', 'is it still running? The page tries again by itself');
  }
  if (response.status === 401) {
    dropToken();
    throw new CallError('no_token', 'the server does not know this page', 'open the URL that klab serve printed');
  }
  return response;
}

interface Body {
  result?: unknown;
  error?: { code: string; what: string; hint?: string };
}

export interface CallOptions {
  signal?: AbortSignal | undefined;
}

/** Calls `verb`. Errors: CallError, with the code of klab's own error. */
export async function call<V extends Verb>(verb: V, args: Arguments<V>, options: CallOptions = {}): Promise<Answer<V>> {
  const response = await request('api/call', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ verb, arguments: args }),
    ...(options.signal ? { signal: options.signal } : {}),
  });
  let body: Body;
  try {
    body = (await response.json()) as Body;
  } catch (thrown) {
    if (thrown instanceof DOMException && thrown.name === 'AbortError') throw asCallError(thrown, verb);
    throw new CallError('no_connection', `the answer to ${verb} was cut off (HTTP ${response.status})`, 'try again', verb);
  }
  if (body.error) throw new CallError(body.error.code, body.error.what, body.error.hint ?? '', verb);
  if (!response.ok || body.result === undefined)
    throw new CallError('internal', `${verb}: HTTP ${response.status}`, 'the terminal of klab serve says more', verb);
  return body.result as Answer<V>;
}
