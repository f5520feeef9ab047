import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build, type Rolldown } from 'vite'
import { expect, test, vi } from 'vitest'
import { root } from '../repository/sources.ts'

vi.setConfig({ testTimeout: 60_000 })

const CLIENT = join(root, 'src/client.ts')
const SHARE = join(root, 'src/client-share.ts')

const ENTRY = 'virtual:page'

/** The code that a page loads which exports this, as its bundler would minify it. */
async function bundle(page: string, external: string[] = []): Promise<string> {
  const result = await build({
    ...{ root, configFile: false, logLevel: 'silent' },
    plugins: [
      {
        name: 'page',
        resolveId: (id) => (id === ENTRY ? id : undefined),
        load: (id) => (id === ENTRY ? page : undefined),
      },
    ],
    build: {
      ...{ write: false, modulePreload: false, target: 'es2023' },
      rolldownOptions: {
        input: ENTRY,
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

/** In bytes, compressed as servers do. */
async function sizeOf(page: string): Promise<number> {
  return gzipSync(await bundle(page), { level: 9 }).length
}

test('everything of turnstream/client is at most 5 KB, minified and compressed', async () => {
  const page = `export * from '${CLIENT}'`
  expect(await bundle(page)).toContain('createClient')
  expect(await sizeOf(page)).toBeLessThanOrEqual(5 * 1024)
})

test('apply and append alone are at most 1 KB', async () => {
  const page = `export { append, apply, EMPTY_VIEW } from '${CLIENT}'`
  expect(await bundle(page)).not.toContain('fetch')
  expect(await sizeOf(page)).toBeLessThanOrEqual(1024)
})

test('turnstream/client/share adds at most 1.5 KB', async () => {
  const page = `export * from '${CLIENT}'`
  const added = (await sizeOf(`${page}\nexport * from '${SHARE}'`)) - (await sizeOf(page))
  expect(added).toBeLessThanOrEqual(1536)
})

test('turnstream/react is at most 1.5 KB, and loads the client of the page', async () => {
  const code = await bundle(`export * from '${join(root, 'src/react.ts')}'`, ['react'])
  expect(code).toContain('useThread')
  expect(code).not.toContain('/api/v2')
  expect(gzipSync(code, { level: 9 }).length).toBeLessThanOrEqual(1536)
})

test('the page loads at most 60 KB at first, compressed', () => {
  const page = join(root, 'dist/web')
  const html = readFileSync(join(page, 'index.html'), 'utf8')
  const loaded = Array.from(html.matchAll(/(?:src|href)="(\.\/[^"]+)"/g), ([, path = '']) => path)
  expect(loaded).toHaveLength(3)
  const sizes = ['index.html', ...loaded].map(
    (path) => gzipSync(readFileSync(join(page, path)), { level: 9 }).length,
  )
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThanOrEqual(60 * 1024)
})
