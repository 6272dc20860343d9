// SPDX-License-Identifier: Apache-2.0
// types.mjs [--check]: src/api/types.ts from ../schemas. Only the words of JSON Schema that stand there are known.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const read = (name) => JSON.parse(readFileSync(here(`../../schemas/${name}`), 'utf8'));
const known = new Set(['type', 'properties', 'required', 'items', 'enum', '$ref', 'additionalProperties', 'description', 'oneOf']);

function type(schema, indent, loose) {
  for (const word of Object.keys(schema)) if (!known.has(word)) throw new Error(`types.mjs does not know "${word}"`);
  if (schema.$ref) return schema.$ref.replace(/^.*#\/\$defs\//, '');
  if (schema.oneOf) return schema.oneOf.map((one) => type(one, indent, loose)).join(' | ');
  if (schema.enum) return schema.enum.map((word) => `'${word}'`).join(' | ');
  switch (schema.type) {
    case undefined: return 'unknown';
    case 'string': case 'boolean': case 'null': return schema.type;
    case 'integer': case 'number': return 'number';
    case 'array': {
      const item = type(schema.items, indent, loose);
      return item.includes(' | ') ? `(${item})[]` : `${item}[]`;
    }
    case 'object':
      if (schema.properties) return `{\n${members(schema, indent + '  ', loose)}${indent}}`;
      return `Record<string, ${typeof schema.additionalProperties === 'object' ? type(schema.additionalProperties, indent, loose) : schema.additionalProperties === false ? 'never' : 'unknown'}>`;
  }
  throw new Error(`types.mjs does not know the type "${schema.type}"`);
}

/// `loose`: of arguments, where a member that is undefined is one that is left out.
function members(schema, indent, loose) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties).map(([name, one]) => {
    const optional = !required.has(name);
    return `${comment(one, indent)}${indent}${/^\w+$/.test(name) ? name : `'${name}'`}${optional ? '?' : ''}: ${type(one, indent, loose)}${optional && loose ? ' | undefined' : ''};\n`;
  }).join('');
}

const comment = (schema, indent) => (schema.description ? `${indent}/** ${schema.description} */\n` : '');

const answers = read('answers.json').$defs;
const verbs = read('verbs.json').verbs;
let text = '// SPDX-License-Identifier: Apache-2.0\n// Made by tools/types.mjs from schemas/: do not edit.\n\n';
for (const [name, schema] of Object.entries(answers)) {
  text += comment(schema, '');
  text += schema.properties ? `export interface ${name} ${type(schema, '', false)}\n\n` : `export type ${name} = ${type(schema, '', false)};\n\n`;
}
text += 'export interface Verbs {\n';
for (const [name, verb] of Object.entries(verbs))
  text += `${comment(verb, '  ')}  '${name}': {\n    arguments: ${type(verb.arguments, '    ', true)};\n    result: ${type(verb.result, '    ', false)};\n  };\n`;
text += `}\n\nexport type Verb = keyof Verbs;\nexport type Arguments<V extends Verb> = Verbs[V]['arguments'];\nexport type Answer<V extends Verb> = Verbs[V]['result'];\n`;

const target = here('../src/api/types.ts');
if (process.argv.includes('--check')) {
  if (readFileSync(target, 'utf8') !== text) {
    console.error('src/api/types.ts is not what the schemas say: npm run types');
    process.exit(1);
  }
} else {
  writeFileSync(target, text);
}
