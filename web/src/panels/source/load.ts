// SPDX-License-Identifier: Apache-2.0
// The editor's chunk, asked for once. A failed load (the server was away) is tried anew the next time.
let loading: Promise<typeof import('./editor')> | undefined;

export function loadEditor(): Promise<typeof import('./editor')> {
  loading ??= import('./editor').catch((e: unknown) => {
    loading = undefined;
    throw e;
  });
  return loading;
}
