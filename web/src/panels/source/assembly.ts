// SPDX-License-Identifier: Apache-2.0
// Colours for disassembly: SPIR-V, PTX, SASS and AMD's in one tokenizer, since all are "opcode operands" lines.
import { StreamLanguage, type StreamParser } from '@codemirror/language';

interface State {
  block: boolean;
  opcode: boolean; // the first word of a line is still to come
}

export const assemblyParser: StreamParser<State> = {
  name: 'assembly',
  startState: () => ({ block: false, opcode: true }),
  token(stream, state) {
    if (stream.sol()) state.opcode = true;
    if (state.block) {
      if (stream.skipTo('*/')) {
        stream.match('*/');
        state.block = false;
      } else stream.skipToEnd();
      return 'comment';
    }
    if (stream.eatSpace()) return null;
    if (stream.match('/*')) {
      state.block = true;
      return 'comment';
    }
    if (stream.match('//')) {
      stream.skipToEnd();
      return 'comment';
    }
    if (stream.peek() === ';') {
      // SPIR-V begins a comment with it; the others end a statement.
      if (state.opcode) {
        stream.skipToEnd();
        return 'comment';
      }
      stream.next();
      return null;
    }
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return 'string';
    if (stream.match(/^[.$@]?[\w.$]+:(?![\w:])/)) return 'labelName';
    if (stream.match(/^%[\w.$]+(?=\s*=)/)) return 'variableName';
    if (stream.match(/^%[\w.$]+/)) return 'variableName';
    if (stream.match(/^[-+]?(?:0x[\da-fA-F]+|0[fFdD][\da-fA-F]{8,16}|\d+(?:\.\d+)?(?:e[-+]?\d+)?)\b/)) return 'number';
    if (stream.match(/^@!?%?U?P\w+/)) return 'keyword'; // predicate
    if (stream.match(/^\.[A-Za-z_][\w.]*/)) {
      return 'meta';
    }
    const word = stream.match(/^[A-Za-z_$][\w.$]*/) as RegExpMatchArray | null;
    if (word) {
      const text = word[0];
      if (state.opcode || /^Op[A-Z]/.test(text)) {
        state.opcode = false;
        return 'keyword';
      }
      if (/^(?:U?R|U?P|[vsa])\d+$|^(?:RZ|URZ|PT|UPT|SRZ|vcc|exec|scc|m0)$/.test(text)) return 'variableName';
      return 'typeName';
    }
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: '//' } },
};

export const assembly = StreamLanguage.define(assemblyParser);
