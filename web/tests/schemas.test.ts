// SPDX-License-Identifier: Apache-2.0
// The schemas say what klab says: every recorded answer of the real program is checked against them.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { describe, expect, it } from 'vitest';
import answers from '../../schemas/answers.json';
import verbs from '../../schemas/verbs.json';

const folder = join(import.meta.dirname, 'samples') + '/';
const ajv = new Ajv2020({ strict: false, allErrors: true });
ajv.addSchema({ ...answers, $id: 'answers.json' });

const known = verbs.verbs as unknown as Record<string, { arguments: object; result: object }>;
const validator = (verb: string) => ajv.compile(known[verb]!.result);
/** Rows of a view of session.status, which itself leaves them open. */
const rowOf: Record<string, string> = {
  view_variants: 'Variant', view_runs: 'RunRow', view_run1: 'RunRow', view_comparisons: 'Verdict', view_events: 'EventRow',
  view_jobs: 'JobRow', view_saves: 'SaveRow', view_dispatches: 'TracedKernel',
};

describe('answers of the real program', () => {
  const files = readdirSync(folder).filter((name) => name.endsWith('.json'));
  it('are there', () => expect(files.length).toBeGreaterThan(30));
  it.each(files)('%s', (file) => {
    const { verb, result } = JSON.parse(readFileSync(folder + file, 'utf8')) as { verb: string; result: { items?: unknown[] } };
    const check = validator(verb);
    expect(check(result), JSON.stringify(check.errors, null, 1)).toBe(true);
    const row = rowOf[file.replace('.json', '')];
    if (!row) return;
    const checkRow = ajv.compile({ $ref: `answers.json#/$defs/${row}` });
    for (const item of result.items ?? []) expect(checkRow(item), JSON.stringify(checkRow.errors, null, 1)).toBe(true);
  });
  it('would not pass as another', () => {
    const { result } = JSON.parse(readFileSync(folder + 'run.json', 'utf8')) as { result: Record<string, unknown> };
    expect(validator('session.compare')(result)).toBe(false);
    expect(validator('session.run')({ ...result, samples_ns: ['fast'] })).toBe(false);
  });
});

it('every reference of the schemas leads somewhere', () => {
  const names = new Set(Object.keys(answers.$defs));
  for (const [, name] of JSON.stringify([answers, verbs]).matchAll(/\$defs\/(\w+)/g)) expect(names).toContain(name);
  for (const verb of Object.keys(known)) expect(() => validator(verb)).not.toThrow();
});
