// SPDX-License-Identifier: Apache-2.0
// What a capture says, in words. Pure.
import type { Proof } from '../../api/types';

export interface ProofWords {
  mark: string;
  tone: 'good' | 'warn' | 'bad' | 'dim';
  title: string;
  means: string;
}

export function proofWords(proof: Pick<Proof, 'state'>): ProofWords {
  switch (proof.state) {
    case 'equal':
      return { mark: '✓', tone: 'good', title: 'Proved: the capture is whole', means: 'Replayed alone, the kernel gives what it gave in the program, bit for bit.' };
    case 'nondeterministic':
      return { mark: '≈', tone: 'warn', title: 'The kernel itself varies', means: 'Replays of the same code differ from each other in some bytes. Those are left out when variants are judged bit for bit.' };
    case 'differs':
      return { mark: '✕', tone: 'bad', title: 'The replay differs from the program', means: 'The kernel reads something that was not captured. Capture again with scope "all".' };
    case 'failed':
      return { mark: '✕', tone: 'bad', title: 'The proof replay failed', means: 'The captured dispatch could not be replayed at all.' };
    default:
      return { mark: '○', tone: 'dim', title: 'Not proved', means: 'The proof replay was not run, so it is not known whether the capture is whole.' };
  }
}

/** "4 GiB", "300M", "1e9": bytes; undefined for what is no size. Powers of 1024, as everywhere in klab. */
export function parseBytes(text: string): number | undefined {
  const match = /^\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([kmgt]?)(?:i?b)?\s*$/i.exec(text);
  if (!match) return undefined;
  const value = Number(match[1]) * 1024 ** ['', 'k', 'm', 'g', 't'].indexOf(match[2]!.toLowerCase());
  return Number.isFinite(value) && value >= 1 ? Math.round(value) : undefined;
}

/** An argument list as it would be typed. */
export const commandText = (argv: readonly string[]): string => argv.map((part) => (/^[\w@%+=:,./-]+$/.test(part) ? part : `'${part.replaceAll("'", "'\\''")}'`)).join(' ');
