// SPDX-License-Identifier: Apache-2.0
// Colours of kernels: the eight that take the most time have one each, all others share grey.
// Names stand beside them everywhere: the colour only leads the eye.
export const kColours = 8;

/** Index in the list -> 0 to 7, or -1 for the rest. */
export type Ranks = ReadonlyMap<number, number>;

export const ranksOf = (byTime: readonly { kernel: number }[]): Ranks => new Map(byTime.slice(0, kColours).map((one, rank) => [one.kernel, rank]));

export const colourOf = (ranks: Ranks, kernel: number): string => {
  const rank = ranks.get(kernel);
  return rank === undefined ? 'var(--kernel-other)' : `var(--kernel-${rank})`;
};
