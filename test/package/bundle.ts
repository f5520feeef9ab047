/** What a page loads. */
import { gzipSync } from 'node:zlib'
import { build as buildWithEsbuild } from 'esbuild'
import { build, type Rolldown } from 'vite'
import { expect } from 'vitest'
import { root } from '../repository/sources.ts'

const ENTRY = 'virtual:page'

export type Bundle = (page: string, external?: string[]) => Promise<string>

/** The code that a page loads which exports this, as Vite minifies it. */
export const bundle: Bundle = async (page, external = []) => {
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
export const bundleWithEsbuild: Bundle = async (page, external = []) => {
  const { outputFiles } = await buildWithEsbuild({
    ...{ stdin: { contents: page, resolveDir: root }, external, write: false },
    ...{ bundle: true, minify: true, format: 'esm', target: 'es2023', logLevel: 'silent' },
  })
  return outputFiles.map(({ text }) => text).join('')
}

/** In bytes, compressed as servers do. */
export const sizeOf = (code: string | Uint8Array): number => gzipSync(code, { level: 9 }).length
