// SPDX-License-Identifier: Apache-2.0
// Which variants can be saved, and what to do about one that cannot.
import type { SaveRow, Variant } from '../../api/types';

export type Step = 'compare' | 'source' | 'capture' | 'undo' | 'none';

export interface Hindrance {
  what: string;
  todo: string;
  step: Step;
}

const kTextLanguages = new Set(['glsl', 'cuda', 'ptx', 'hip']);

/** There is a difference to show. */
export const isText = (variant: Variant): boolean => variant.source_file !== '' && kTextLanguages.has(variant.language);

/** What is known before the server is asked; undefined: it can be tried. */
export function hindranceOf(variant: Variant): Hindrance | undefined {
  if (!variant.source_file)
    return { what: `${variant.name} has no source of its own: only its launch differs.`, todo: 'Make the same change where the program dispatches the kernel.', step: 'none' };
  if (!kTextLanguages.has(variant.language))
    return { what: `${variant.name} is ${variant.language}, not a source text.`, todo: 'Make the same change in the source, and build that.', step: 'source' };
  const verdict = variant.verdict;
  if (!verdict)
    return { what: `${variant.name} was not compared with the captured kernel yet.`, todo: 'Compare it: only a variant that was found correct is saved.', step: 'compare' };
  if (verdict.correctness === 'correct') return undefined;
  if (verdict.correctness === 'incorrect')
    return { what: `${variant.name} is incorrect: ${verdict.reason}`, todo: 'Mend it in the source, build it and compare again.', step: 'source' };
  return { what: `${variant.name} is ${verdict.correctness.replaceAll('_', ' ')}: ${verdict.reason}`, todo: 'Compare it again in a way that can tell, then save.', step: 'compare' };
}

/** What to do when the server refuses. `saves`: newest last or first, any order. */
export function refusalOf(code: string, variant: Variant, file: string, saves: readonly SaveRow[]): Hindrance | undefined {
  switch (code) {
    case 'source_changed': {
      const inPlace = saves.filter((s) => s.file === file && !s.undone).sort((a, b) => b.at.localeCompare(a.at))[0];
      if (inPlace && inPlace.variant !== variant.id)
        return {
          what: 'The file holds another saved variant now, not the text that this one was made from.',
          todo: 'Undo that save below and save again, or open this variant in the source panel, bring the two together, build and compare.', step: 'undo',
        };
      return {
        what: 'The file on disk is not the text that this variant was made from: somebody has changed it since. Nothing was written.',
        todo: 'Open the variant in the source panel: it shows the difference to the file as it is now. Bring the two together, build, compare, save.', step: 'source',
      };
    }
    case 'not_correct':
      return { what: 'Only a variant that was found correct is saved.', todo: 'Compare it with the baseline first.', step: 'compare' };
    case 'illegal_state':
      return { what: 'The session cannot save now.', todo: 'Wait for the job that runs; before any comparison there is nothing to save.', step: 'compare' };
    default:
      return undefined;
  }
}

/** The one that is most likely to be saved: the fastest of those found correct, else the newest. */
export function bestVariant(variants: readonly Variant[]): Variant | undefined {
  const correct = variants.filter((v) => v.verdict?.correctness === 'correct' && v.source_file);
  const faster = correct.filter((v) => v.verdict?.speed === 'faster').sort((a, b) => (a.verdict?.ratio ?? 1) - (b.verdict?.ratio ?? 1));
  return faster[0] ?? correct[correct.length - 1] ?? variants[variants.length - 1];
}
