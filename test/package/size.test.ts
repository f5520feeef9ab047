import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build, type Rolldown } from 'vite'
import { expect, test, vi } from 'vitest'
import { root } from '../repository/sources.ts'

vi.setConfig({ testTimeout: 60_000 })

/** The code that a page loads for everything an entry point exports. */
async function bundle(entry: string, external: string[] = []): Promise<string> {
  const result = await build({
    ...{ root, configFile: false, logLevel: 'silent' },
    build: {
      ...{ write: false, modulePreload: false, target: 'es2023' },
      rolldownOptions: {
        input: join(root, entry),
        external,
        preserveEntrySignatures: 'strict',
        output: { minify: true, format: 'es' },
      },
    },
  })
  const outputs = (Array.isArray(result) ? result : [result]) as Rolldown.RolldownOutput[]
  const chunks = outputs.flatMap(({ output }) => output).filter((each) => each.type === 'chunk')
  expect(chunks).toHaveLength(1)
  expect(chunks.flatMap(({ imports }) => imports)).toEqual(external)
  return chunks.map(({ code }) => code).join('')
}

test('turnstream/client is at most 7 KB, minified and compressed', async () => {
  const code = await bundle('src/client.ts')
  expect(code).toContain('createClient')
  expect(gzipSync(code, { level: 9 }).length).toBeLessThanOrEqual(7 * 1024)
})

test('turnstream/react is at most 1.5 KB, and loads the client of the page', async () => {
  const code = await bundle('src/react.ts', ['react'])
  expect(code).toContain('useThread')
  expect(code).not.toContain('/api/v2')
  expect(gzipSync(code, { level: 9 }).length).toBeLessThanOrEqual(1536)
})
