// SPDX-License-Identifier: Apache-2.0
// Squarified treemap (Bruls, Huizing, van Wijk): areas in proportion, rectangles as near to squares as can be.

export interface Tile<T> {
  item: T;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** `items` in falling order of their value; what has none is left out. */
export function treemap<T>(items: readonly T[], value: (item: T) => number, width: number, height: number): Tile<T>[] {
  const list = items.filter((item) => value(item) > 0);
  const sum = list.reduce((all, item) => all + value(item), 0);
  if (sum <= 0 || width <= 0 || height <= 0) return [];
  const factor = (width * height) / sum;
  const tiles: Tile<T>[] = [];
  let x = 0;
  let y = 0;
  let w = width;
  let h = height;
  let at = 0;
  while (at < list.length) {
    const side = Math.min(w, h);
    // Takes items into one strip along the shorter side while that makes its worst rectangle squarer.
    let area = 0;
    let end = at;
    let worst = Infinity;
    while (end < list.length) {
      const next = area + value(list[end]!) * factor;
      const largest = value(list[at]!) * factor;
      const smallest = value(list[end]!) * factor;
      const ratio = Math.max((side * side * largest) / (next * next), (next * next) / (side * side * smallest));
      if (ratio > worst) break;
      worst = ratio;
      area = next;
      end += 1;
    }
    const thick = area / side;
    let along = 0;
    for (; at < end; ++at) {
      const item = list[at]!;
      const length = (value(item) * factor) / thick;
      tiles.push(w >= h ? { item, x, y: y + along, width: thick, height: length } : { item, x: x + along, y, width: length, height: thick });
      along += length;
    }
    if (w >= h) {
      x += thick;
      w -= thick;
    } else {
      y += thick;
      h -= thick;
    }
  }
  return tiles;
}
