// SPDX-License-Identifier: Apache-2.0
// Chromium for the tests of the page, and what they say when something is not as it should be.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const web = createRequire(join(import.meta.dirname ?? new URL('.', import.meta.url).pathname, '../../web/package.json'));
const { chromium } = web('playwright-core');

export const open = async (url, { width = 1280, height = 800, theme = 'dark', axe = false } = {}) => {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'],
  });
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: 'reduce', bypassCSP: axe });
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  const complaints = [];
  const outside = [];
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(`${error.message}\n${error.stack ?? ''}`));
  page.on('request', (request) => request.url().startsWith(new URL(url).origin) || request.url().startsWith('data:') || outside.push(request.url()));
  await page.goto(url);
  return { browser, context, page, complaints, outside };
};

/// Findings of axe-core that are serious or worse, as lines.
export const seriousFaults = async (page, where) => {
  await page.evaluate(readFileSync(web.resolve('axe-core/axe.min.js'), 'utf8'));
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return found.violations
    .filter((one) => ['serious', 'critical'].includes(one.impact))
    .map((one) => `${where}: ${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.target.join(' ')).join(', ')}`);
};

export const check = (holds, what) => {
  if (!holds) throw new Error(what);
};
