// SPDX-License-Identifier: Apache-2.0
import type { Extension } from '@codemirror/state';
import { cpp } from '@codemirror/lang-cpp';
import { StreamLanguage } from '@codemirror/language';
import { shader } from '@codemirror/legacy-modes/mode/clike';
import { assembly } from './assembly';

const glsl = StreamLanguage.define(shader);

/** By session.build's word for a language, or "assembly" for a disassembly. */
export function languageExtension(language: string): Extension {
  switch (language) {
    case 'glsl': return glsl;
    case 'cuda': case 'hip': return cpp();
    case 'ptx': case 'spirv': case 'assembly': return assembly;
    default: return [];
  }
}
