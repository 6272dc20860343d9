// SPDX-License-Identifier: Apache-2.0
// look.mjs URL [--session ID] [--panels a,b] [--out look] [--axe] [--themes dark,light] [--widths 1280,390]:
// opens the address that `klab serve` printed, visits the panels and writes a picture of each. Says what the console
// said, and with --axe what axe-core finds. Exit 1 when there was an error or a serious finding.
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const words = process.argv.slice(2);
const option = (name, usual) => {
  const at = words.indexOf(`--${name}`);
  return at < 0 ? usual : words.splice(at, 2)[1];
};
const flag = (name) => {
  const at = words.indexOf(`--${name}`);
  if (at >= 0) words.splice(at, 1);
  return at >= 0;
};
const out = option('out', 'look');
const axe = flag('axe');
const themes = option('themes', 'dark,light').split(',');
const widths = option('widths', '1280,390').split(',').map(Number);
const wanted = option('panels', 'sessions,dispatches,dispatches?view=rows,capture,source,code,runs,comparison,roofline,validation,save,history,history?view=jobs').split(',');
let session = option('session', '');
const [url] = words;
if (!url) {
  console.error('look.mjs URL [--session ID] [--panels a,b] [--out FOLDER] [--axe] [--themes dark,light] [--widths 1280,390]');
  process.exit(2);
}
mkdirSync(out, { recursive: true });
const axeSource = axe ? readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8') : '';

export const launch = () =>
  chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'],
  });

const browser = await launch();
let faults = 0;
for (const theme of themes)
  for (const width of widths) {
    const context = await browser.newContext({ viewport: { width, height: width < 700 ? 844 : 800 }, colorScheme: theme, reducedMotion: 'reduce', bypassCSP: axe });
    const page = await context.newPage();
    const complain = (text) => {
      faults += 1;
      console.log(`${theme} ${width}: ${text}`);
    };
    page.on('console', (message) => message.type() === 'error' && complain(message.text()));
    page.on('pageerror', (error) => complain(`${error.message}\n${error.stack ?? ''}`));
    await page.goto(url);
    await page.waitForSelector('main');
    if (!session) {
      const first = page.getByRole('grid', { name: 'Sessions' }).locator('a').first();
      await first.waitFor();
      session = (await first.getAttribute('href')).split('/')[2];
    }
    for (const panel of wanted) {
      const [name, query = ''] = panel.split('?');
      const hash = name === 'sessions' ? '#/' : `#/s/${session}/${name}${query ? `?${query}` : ''}`;
      await page.evaluate((to) => (location.hash = to), hash);
      await page.waitForTimeout(200);
      await page.waitForFunction(() => !document.querySelector('[aria-busy="true"]'), undefined, { timeout: 5000 }).catch(() => undefined);
      await page.waitForTimeout(600);
      const file = join(out, `${panel.replaceAll(/[^\w.]+/g, '-')}-${theme}-${width}.png`);
      await page.screenshot({ path: file });
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (over > 0) complain(`${panel}: ${over} px too wide`);
      if (axe) {
        await page.evaluate(axeSource);
        const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
        for (const one of found.violations)
          complain(`${panel}: axe ${one.impact} ${one.id}: ${one.help}\n  ${one.nodes.slice(0, 4).map((node) => `${node.target.join(' ')}  ${node.failureSummary.split('\n').slice(1).join('; ').trim()}`).join('\n  ')}`);
      }
    }
    await context.close();
  }
await browser.close();
console.log(faults ? `${faults} faults` : `no faults; pictures are in ${out}`);
process.exit(faults ? 1 : 0);
