// SPDX-License-Identifier: Apache-2.0
// whole.mjs URL FILE RESULT: one laboratory from the list of sessions to a save and its undo, as a person does it.
// FILE is the kernel's source. Writes what it saw to RESULT as JSON; exits with 1 and says where it stopped.
import { readFileSync, writeFileSync } from 'node:fs';
import { check, open, seriousFaults } from './browser.mjs';

const [url, file, result] = process.argv.slice(2);
const { browser, page, context, complaints, outside } = await open(url, { axe: true });
const saw = { steps: [], axe: [], complaints, outside };
const original = readFileSync(file, 'utf8');

const step = async (name, work) => {
  try {
    await work();
    saw.steps.push(name);
  } catch (error) {
    await page.screenshot({ path: `${result}.png` }).catch(() => undefined);
    writeFileSync(result, JSON.stringify(saw));
    console.error(`${name}: ${error.stack ?? error}\nat ${page.url()}\n${(await page.locator('main').innerText().catch(() => '')).slice(0, 1500)}\n${complaints.join('\n')}`);
    process.exit(1);
  }
};
const button = (name) => page.getByRole('button', { name }).first();
const session = () => /#\/s\/([^/]+)/.exec(page.url())?.[1] ?? '';
const go = async (panel) => {
  const id = session();
  await page.evaluate((to) => (location.hash = to), `#/s/${id}/${panel}`);
  await page.locator('main h1').first().waitFor();
};
const axe = async (name) => saw.axe.push(...(await seriousFaults(page, name)));
// The editor's own text, whichever lines of it are drawn.
const type = async (text) => {
  const content = page.locator('.cm-content[contenteditable="true"]').last();
  await content.click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(text);
};
const build = async (name, text) => {
  await go('source');
  await page.getByText('captured SPIR-V').or(page.locator('.cm-content')).first().waitFor();
  await type(text);
  await page.getByLabel('Name of the variant').fill(name);
  await page.keyboard.press('Control+s');
};
const built = async (name) => page.getByText(name, { exact: false }).and(page.locator(':visible')).first().waitFor();

await step('the key leaves the address', async () => {
  await page.locator('main').waitFor();
  check(!page.url().includes('t='), page.url());
});
await step('open a session on the program', async () => {
  await button('Open a session').click();
  await page.getByRole('dialog').waitFor();
  await axe('open');
  await page.getByRole('dialog').getByRole('button', { name: /^Open/ }).last().click();
  await page.waitForURL(/#\/s\/[^/]+\/dispatches/);
});
await step('trace it', async () => {
  await page.getByRole('button', { name: /^(Trace|Run and list|Run)/ }).first().click();
  await page.getByRole('grid', { name: 'Kernels by GPU time' }).getByText(/^main@/).first().waitFor();
  await axe('dispatches');
});
await step('every dispatch and the lanes', async () => {
  await page.getByRole('tab', { name: /Every dispatch/ }).click();
  await page.getByRole('grid', { name: 'Dispatches' }).getByText(/^main@/).first().waitFor();
  await axe('rows');
  await page.getByRole('tab', { name: /Kernels/ }).click();
});
await step('tune this kernel', async () => {
  await page.getByRole('grid', { name: 'Kernels by GPU time' }).getByText(/^main@/).first().click();
  await button(/Tune this kernel/).click();
  await page.waitForURL(/capture/);
});
await step('sizes of both scopes, then capture', async () => {
  await button(/Preview both sizes/).click();
  await page.getByText(/MiB|KiB/).first().waitFor();
  await button(/^Capture( |$)/).or(page.getByRole('button', { name: /^Capture/ })).first().click();
  await page.getByText(/proof|proved/i).first().waitFor();
  await page.getByText(/captured/).first().waitFor();
  await axe('capture');
});
await step('choose the source', async () => {
  await go('source');
  const chooser = page.getByRole('button', { name: /^(Select|Use|Choose)/ }).first();
  await chooser.or(page.locator('.cm-content').first()).first().waitFor();
  if (await chooser.isVisible()) await chooser.click();
  await page.locator('.cm-content').first().waitFor();
  check((await page.locator('.cm-content').first().innerText()).includes('SPDX'), 'the editor shows the source');
  await axe('source');
});
await step('a compile error stands at its line', async () => {
  await build('broken', original.replace('x[i] * a', 'undefined_name * a'));
  await page.getByText(/undefined_name/).last().waitFor();
  await page.getByText(/undeclared/).first().waitFor();
  await axe('compile error');
});
await step('a right variant and a wrong one are built', async () => {
  await build('right', original.replace('x[i] = x[i] * a + b', 'x[i] = a * x[i] + b'));
  await page.getByRole('button', { name: 'Compare with the baseline' }).waitFor();
  await build('wrong', original.replace('x[i] = x[i] * a + b', 'x[i] = x[i] * a - b'));
  await page.waitForTimeout(300);
  await page.getByRole('button', { name: 'Compare with the baseline' }).waitFor();
  await built('wrong');
});
await step('code beside code', async () => {
  await go('code');
  await page.getByText(/OpFunction|OpEntryPoint/).first().waitFor();
  await axe('code');
});
const run = async (variant) => {
  await go('runs');
  const select = page.getByRole('form', { name: 'Conditions' }).getByLabel(/^Variant/).first();
  await select.selectOption({ label: variant }).catch(async () => {
    const options = await select.locator('option').allInnerTexts();
    await select.selectOption({ index: options.findIndex((one) => one.includes(variant)) });
  });
  const before = await page.getByText(/^(\d+) here;/).innerText();
  await page.getByRole('form', { name: 'Conditions' }).getByRole('button', { name: /^Run/ }).click();
  await page.waitForFunction((text) => ![...document.querySelectorAll('main span')].some((e) => e.textContent === text), before);
};
await step('the baseline twice, and a delta', async () => {
  await run('baseline');
  await run('baseline');
  await page.getByRole('grid', { name: 'Runs of the session' }).getByText(/baseline/).first().waitFor();
  await axe('runs');
});
await step('a wrong variant has no time', async () => {
  await run('wrong');
  await page.getByRole('grid', { name: 'Runs of the session' }).getByText('not shown').waitFor();
  await go('validation');
  await page.getByText(/differ/).first().waitFor();
  await axe('validation');
});
await step('a comparison is cancelled, and says what it has', async () => {
  await page.evaluate((to) => (location.hash = to), `#/s/${session()}/runs?kind=compare`);
  const form = page.getByRole('form', { name: 'Conditions' });
  await form.getByRole('button', { name: /^Compare/ }).waitFor();
  const right = form.getByLabel(/right/).first();
  if (await right.count()) await right.check();
  else await form.locator('select').first().selectOption({ label: 'right' });
  await form.getByRole('button', { name: /^Compare/ }).click();
  const cancel = page.getByRole('button', { name: /^Cancel/ }).first();
  await cancel.waitFor();
  await page.waitForTimeout(2500);
  await cancel.click();
  await page.getByText(/inconclusive|cancelled/i).first().waitFor();
});
await step('a comparison of a right variant', async () => {
  const form = page.getByRole('form', { name: 'Conditions' });
  await form.getByRole('button', { name: /^Compare/ }).and(page.locator(':enabled')).waitFor();
  await form.getByLabel(/^(Measure|Time to measure|Seconds)/i).first().fill('2').catch(() => undefined);
  await form.getByRole('button', { name: /^Compare/ }).click();
  await page.getByRole('button', { name: /^Cancel/ }).first().waitFor();
  await page.getByRole('button', { name: /^Cancel/ }).first().waitFor({ state: 'hidden', timeout: 120000 });
  await go('comparison');
  await page.getByText(/interval/i).first().waitFor();
  await axe('comparison');
});
await step('the connection is lost, and comes back', async () => {
  await context.setOffline(true);
  await page.getByText(/Connection lost/).first().waitFor({ timeout: 40000 });
  await go('history');
  await context.setOffline(false);
  await page.getByText(/Connection lost/).first().waitFor({ state: 'hidden' });
  complaints.splice(0, complaints.length, ...complaints.filter((one) => !/ERR_INTERNET_DISCONNECTED|net::ERR/.test(one)));
  await axe('history');
});
await step('save, with the difference shown', async () => {
  await go('save');
  const pick = page.getByLabel('Variant', { exact: true });
  const options = await pick.locator('option').allInnerTexts();
  await pick.selectOption({ index: options.findIndex((one) => one.startsWith('right')) });
  await button(/^Save…/).click();
  await page.getByRole('dialog').getByText('a * x[i] + b').first().waitFor();
  await axe('save');
  await page.getByRole('dialog').getByRole('button', { name: /^Write to/ }).click();
  await page.getByText('Written:').waitFor();
  check(readFileSync(file, 'utf8').includes('a * x[i] + b'), 'the file has the new text');
});
await step('undo', async () => {
  await button('Undo').click();
  const sure = page.getByRole('dialog').getByRole('button', { name: /put|undo/i }).last();
  await sure.click();
  for (let i = 0; i < 100 && readFileSync(file, 'utf8') !== original; ++i) await page.waitForTimeout(100);
  check(readFileSync(file, 'utf8') === original, 'the file is as it was');
});
await step('close', async () => {
  await button(/Close/).click();
  await page.getByRole('dialog').getByRole('button', { name: /Close/ }).last().click();
  await page.getByText('closed').first().waitFor();
});
await browser.close();
writeFileSync(result, JSON.stringify({ ...saw, session: session() }));
