// SPDX-License-Identifier: Apache-2.0
// A whole tuning by an agent: open, search, select, capture, three variants (right, wrong, not compiling), compare, save,
// close. node tuning.mjs '{"kind": "v1", "server": {...}, "folder": ..., "program": NAME, "kernel": ..., "file": ...,
// "right": text, "wrong": text, "broken": text, "language": "glsl", "timed": whether times mean something on that device,
// "build": {} (further arguments of variants), "save": "elicit" | "decline" | "token", "approve": [argv]}'
// Prints what happened as JSON lines; exits with 1 at the first thing that is not as it must be.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { connect } from './clients.mjs';

const job = JSON.parse(process.argv[2]);
const say = (step, data) => console.log(JSON.stringify({ step, ...data }));
const variant = { language: job.language, ...job.build };
const asked = [];
const elicit = job.save === 'token' ? undefined : params => {
  asked.push(params);
  return job.save === 'decline' ? 'decline' : 'accept';
};

const c = await connect(job.kind, job.server, elicit);
try {
  const tools = await c.tools();
  const names = tools.map(t => t.name);
  for (const name of ['tuning_open', 'tuning_status', 'tuning_action', 'tuning_close'])
    assert.ok(names.includes(name), `no tool ${name} in ${names}`);
  for (const tool of tools) {
    assert.equal(tool.inputSchema.type, 'object', tool.name);
    assert.ok(tool.outputSchema, `${tool.name} has no outputSchema`);
    assert.ok(tool.annotations && 'readOnlyHint' in tool.annotations, `${tool.name} is not annotated`);
  }
  assert.equal(tools.find(t => t.name === 'tuning_status').annotations.readOnlyHint, true);
  say('tools', { names, version: c.version() });

  const ok = (what, r) => {
    assert.ok(!r.error, `${what}: ${r.text}`);
    assert.ok(r.data, `${what}: no structured content`);
    assert.deepEqual(JSON.parse(r.text), r.data, `${what}: the text is not the structured content`);
    return r.data;
  };
  const opened = ok('open', await c.call('tuning_open', { name: 'by an agent', program: job.program }));
  const session = opened.session.id;
  say('open', { session, state: opened.session.state });

  // Long work may come back as a running job, which the status waits for.
  const finish = async (what, r) => {
    let data = ok(what, r);
    for (let i = 0; data.state === 'running' && i < 50; ++i) {
      const seen = ok(`${what}: job`, await c.call('tuning_status', { session, view: 'job', job: data.job, wait_seconds: 10 }));
      data = seen.result ?? seen;
    }
    return data;
  };
  const act = (args, options) => c.call('tuning_action', { session, ...args }, options);

  const progress = [];
  const captured = await finish('capture', await act({ action: 'capture', kernel: job.kernel },
    { onprogress: p => progress.push(p.progress) }));
  for (let i = 1; i < progress.length; ++i) assert.ok(progress[i] > progress[i - 1], `progress went ${progress}`);
  assert.equal(captured.proofs[0].state, 'equal', JSON.stringify(captured.proofs));
  say('capture', { bytes: captured.captured_bytes, progress: progress.length });

  const found = await finish('search', await act({ action: 'search', query: job.kernel }));
  assert.ok(found.candidates.some(x => x.file === job.file), JSON.stringify(found.candidates));
  await finish('select', await act({ action: 'select', file: job.file }));
  say('search', { candidates: found.candidates.length });

  const base = await finish('run', await act({ action: 'run', iterations: 3 }));
  assert.equal(base.validation.correctness, 'correct', base.validation.reason);
  const right = await finish('right', await act({ action: 'compare', name: 'right', ...variant, source_text: job.right, measure_s: 1 }));
  assert.equal(right.verdict.correctness, 'correct', right.verdict.reason);
  if (job.timed) {
    assert.ok(right.ratio, 'a right variant has a ratio of times');
  } else {
    assert.equal(right.verdict.speed, 'none');
    assert.match(right.verdict.reason, /emulated/);
    assert.ok(!right.ratio, 'times of an emulated device were compared');
  }
  const wrong = await finish('wrong', await act({ action: 'compare', name: 'wrong', ...variant, source_text: job.wrong, measure_s: 0 }));
  assert.equal(wrong.verdict.correctness, 'incorrect', wrong.verdict.reason);
  assert.ok(!wrong.ratio, 'a wrong variant has no speed');
  const broken = await act({ action: 'compare', name: 'broken', ...variant, source_text: job.broken, measure_s: 0 });
  assert.ok(broken.error, 'a variant that does not compile is an error');
  const problem = broken.data ?? JSON.parse(broken.text);
  assert.equal(problem.code, 'compile_failed', broken.text);
  assert.match(problem.message, /undefined_name/);
  assert.ok(problem.hint !== undefined && problem.retryable !== undefined, broken.text);
  say('variants', { ratio: right.ratio?.ratio, compiler: right.compiler, broken: problem.message.slice(0, 200) });

  // A wrong variant is never saved, whoever asks.
  const before = readFileSync(job.file, 'utf8');
  const refused = await act({ action: 'save', variant: 'wrong' });
  assert.ok(refused.error, 'a wrong variant was saved');
  assert.equal(readFileSync(job.file, 'utf8'), before);

  let saved = await act({ action: 'save', variant: 'right' });
  if (job.save === 'decline') {
    assert.equal(readFileSync(job.file, 'utf8'), before, 'declined, and yet the file changed');
    assert.equal(asked.length, 1);
  } else {
    if (job.save === 'token') {
      const preview = ok('preview', saved);
      assert.equal(preview.state, 'preview', saved.text);
      assert.match(preview.diff, /^[-+]/m);
      assert.equal(readFileSync(job.file, 'utf8'), before, 'a preview changed the file');
      const early = await act({ action: 'save', variant: 'right', token: preview.token });
      assert.ok(early.error, 'a token that nobody approved was taken');
      execFileSync(job.approve[0], [...job.approve.slice(1), preview.token], { env: { ...process.env, ...job.server.env }, stdio: 'pipe' });
      saved = await act({ action: 'save', variant: 'right', token: preview.token });
    } else {
      assert.equal(asked.length, 1, 'nobody was asked');
      assert.match(asked[0].message, /^[-+]/m, 'the question shows no diff');
    }
    const done = ok('save', saved);
    assert.equal(done.state, 'saved', saved.text);
    assert.equal(readFileSync(job.file, 'utf8'), job.right);
  }
  say('save', { how: job.save, text: saved.text.slice(0, 200) });

  const status = ok('status', await c.call('tuning_status', { session }));
  say('status', { state: status.session.state });
  const closed = ok('close', await c.call('tuning_close', { session }));
  assert.ok(closed.freed_bytes > 0, JSON.stringify(closed));
  const again = await c.call('tuning_close', { session });
  assert.ok(again.error, 'closed twice');
  say('close', { freed: closed.freed_bytes });
} finally {
  await c.close();
}
