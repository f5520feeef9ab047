import { fileURLToPath } from 'node:url'
import { defaultClientConditions, defineConfig } from 'vite'

const gateway = process.env['TURNSTREAM_URL'] ?? 'http://127.0.0.1:4010'

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  // The page may be mounted under a prefix.
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  resolve: {
    alias: { react: 'preact/compat' },
    conditions: ['@turnstream/source', ...defaultClientConditions],
  },
  build: {
    outDir: fileURLToPath(new URL('../packages/turnstream/dist/web', import.meta.url)),
    emptyOutDir: true,
    target: 'es2022',
    // Would be an inline script.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    rolldownOptions: {
      onLog(level, log, handle) {
        // The hooks are marked for frameworks that also render on servers.
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') handle(level, log)
      },
    },
  },
  server: { proxy: { '/api': gateway, '/xapi': gateway, '/v1': gateway, '/docs': gateway } },
})
