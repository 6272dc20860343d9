// SPDX-License-Identifier: Apache-2.0
import { expect, it } from 'vitest';
import { parseUnified } from './unified';

const diff = `--- /p/a.comp
+++ /p/a.comp
@@ -11,3 +11,4 @@
   float sum = 0.0;
-  x();
+  y();
+  z();
   c = sum;
@@ -40 +41 @@
--- gone
+++ come
\\ No newline at end of file
`;

it('numbers the lines of both sides', () => {
  const { rows, added, removed } = parseUnified(diff);
  expect([added, removed]).toEqual([3, 2]);
  expect(rows.find((r) => r.text === '  y();')).toEqual({ kind: 'added', before: 0, after: 12, text: '  y();' });
  expect(rows.find((r) => r.text === '  c = sum;')).toEqual({ kind: 'context', before: 13, after: 14, text: '  c = sum;' });
});

it('takes "--- x" within a hunk for a line', () => {
  const { rows } = parseUnified(diff);
  expect(rows.find((r) => r.text === '-- gone')).toMatchObject({ kind: 'removed', before: 40 });
  expect(rows.find((r) => r.text === '++ come')).toMatchObject({ kind: 'added', after: 41 });
  expect(rows.filter((r) => r.kind === 'file')).toHaveLength(2);
  expect(rows[rows.length - 1]).toMatchObject({ kind: 'note', text: 'No newline at end of file' });
});

it('has no rows for no difference', () => expect(parseUnified('').rows).toEqual([]));
