// SPDX-License-Identifier: Apache-2.0
// What jsdom lacks and components ask for.
class Observer {
  observe() {}
  unobserve() {}
  disconnect() {}
}
globalThis.ResizeObserver ??= Observer as unknown as typeof ResizeObserver;
