// SPDX-License-Identifier: Apache-2.0
// The page is embedded in the program: file names are fixed, and everything is served from one place.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  base: './',
  plugins: [svelte()],
  resolve: process.env.VITEST ? { conditions: ['browser'] } : {},
  build: {
    target: 'es2022',
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    chunkSizeWarningLimit: 700,
    rollupOptions: {
      output: {
        entryFileNames: 'app.js',
        chunkFileNames: 'assets/[name].js',
        // One style sheet, app.css; whatever else there is keeps its name.
        assetFileNames: (asset) => (asset.names[0]?.endsWith('.css') ? 'app.css' : 'assets/[name][extname]'),
      },
    },
  },
  test: { environment: 'jsdom', include: ['src/**/*.test.ts', 'tests/**/*.test.ts'], setupFiles: ['tests/setup.ts'] },
});
