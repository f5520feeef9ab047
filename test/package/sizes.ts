/** What the client adds to a page, compressed. */
import { gzipSync } from 'node:zlib'
import { build as buildWithEsbuild } from 'esbuild'
import { build, type Rolldown } from 'vite'
import { describe, expect, test, vi } from 'vitest'
import { root } from '../repository/sources.ts'

const ENTRY = 'virtual:page'

type Bundle = (page: string, external?: string[]) => Promise<string>

/** The code that a page loads which exports this, as Vite minifies it. */
const bundle: Bundle = async (page, external = []) => {
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

/** The same, as esbuild minifies it. */
const bundleWithEsbuild: Bundle = async (page, external = []) => {
  const { outputFiles } = await buildWithEsbuild({
    ...{ stdin: { contents: page, resolveDir: root }, external, write: false },
    ...{ bundle: true, minify: true, format: 'esm', target: 'es2023', logLevel: 'silent' },
  })
  return outputFiles.map(({ text }) => text).join('')
}

/** In bytes, compressed as servers do. */
export const sizeOf = (code: string | Uint8Array): number => gzipSync(code, { level: 9 }).length

/** Tests the entries of the client in a folder, which may be unpacked by a hook. */
export function describeSizes(folder: () => string, extension: 'ts' | 'js'): void {
  vi.setConfig({ testTimeout: 60_000 })

  describe.each([
    ['Vite', bundle],
    ['esbuild', bundleWithEsbuild],
  ])('minified by %s and compressed', (_name, bundled) => {
    const client = () => `export * from '${folder()}/index.${extension}'`

    test('everything of turnstream/client is at most 5.5 KB', async () => {
      const code = await bundled(client())
      expect(code).toContain('createClient')
      expect(sizeOf(code)).toBeLessThanOrEqual(5632)
    })

    test('apply and append alone are at most 1 KB', async () => {
      const code = await bundled(
        `export { append, apply, EMPTY_VIEW } from '${folder()}/index.${extension}'`,
      )
      expect(code).not.toContain('fetch')
      expect(sizeOf(code)).toBeLessThanOrEqual(1024)
    })

    test('turnstream/client/share adds at most 2 KB', async () => {
      const both = await bundled(`${client()}\nexport * from '${folder()}/share.${extension}'`)
      expect(sizeOf(both) - sizeOf(await bundled(client()))).toBeLessThanOrEqual(2048)
    })

    test('turnstream/react is at most 1.5 KB, and loads the client of the page', async () => {
      const code = await bundled(`export * from '${folder()}/react.${extension}'`, ['react'])
      expect(code).toContain('useThread')
      expect(code).not.toContain('/api/v2')
      expect(sizeOf(code)).toBeLessThanOrEqual(1536)
    })
  })
}
