// SPDX-License-Identifier: Apache-2.0
// The page is embedded in the program: file names are fixed, and everything is served from one place.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

/** licenses.txt: of each package that is in the bundle, its name, version and licence text. */
const licences = (): Plugin => ({
  name: 'licences',
  generateBundle(_, bundle) {
    const found = new Set<string>();
    for (const file of Object.values(bundle))
      if (file.type === 'chunk')
        for (const module of Object.keys(file.modules)) {
          const folder = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(module.replace(/^\0/, ''))?.[0];
          if (folder && existsSync(join(folder, 'package.json'))) found.add(folder);
        }
    const parts = [...found].sort().map((folder) => {
      const about = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { name: string; version: string; license?: string };
      const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
      if (!file) this.error(`${about.name} has no licence file`);
      return `${about.name} ${about.version} (${about.license ?? 'see below'})\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`;
    });
    this.emitFile({ type: 'asset', fileName: 'licenses.txt', source: `The page is Klab's own, Apache-2.0, and has these packages in it:\n\n${parts.join(`\n${'-'.repeat(72)}\n\n`)}` });
  },
});

export default defineConfig({
  base: './',
  plugins: [svelte(), licences()],
  resolve: process.env.VITEST ? { conditions: ['browser'] } : {},
  build: {
    target: 'es2022',
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    chunkSizeWarningLimit: 700,
    rollupOptions: {
      output: {
        banner: '/*! Klab, Apache-2.0; what it has of others: licenses.txt */',
        entryFileNames: 'app.js',
        chunkFileNames: 'assets/[name].js',
        // One style sheet, app.css; whatever else there is keeps its name.
        assetFileNames: (asset) => (asset.names[0]?.endsWith('.css') ? 'app.css' : 'assets/[name][extname]'),
      },
    },
  },
  test: { environment: 'jsdom', include: ['src/**/*.test.ts', 'tests/**/*.test.ts'], setupFiles: ['tests/setup.ts'] },
});
