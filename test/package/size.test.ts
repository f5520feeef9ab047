import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { root } from '../repository/sources.ts'
import { bundle, bundleWithEsbuild, sizeOf } from './bundle.ts'

vi.setConfig({ testTimeout: 60_000 })

const CLIENT = join(root, 'packages/client/src/index.ts')
const SHARE = join(root, 'packages/client/src/share.ts')

describe.each([
  ['Vite', bundle],
  ['esbuild', bundleWithEsbuild],
])('minified by %s and compressed', (_name, bundled) => {
  const client = `export * from '${CLIENT}'`

  test('everything of turnstream/client is at most 5.5 KB', async () => {
    const code = await bundled(client)
    expect(code).toContain('createClient')
    expect(sizeOf(code)).toBeLessThanOrEqual(5632)
  })

  test('apply and append alone are at most 1 KB', async () => {
    const code = await bundled(`export { append, apply, EMPTY_VIEW } from '${CLIENT}'`)
    expect(code).not.toContain('fetch')
    expect(sizeOf(code)).toBeLessThanOrEqual(1024)
  })

  test('turnstream/client/share adds at most 2 KB', async () => {
    const both = await bundled(`${client}\nexport * from '${SHARE}'`)
    expect(sizeOf(both) - sizeOf(await bundled(client))).toBeLessThanOrEqual(2048)
  })

  test('turnstream/react is at most 1.5 KB, and loads the client of the page', async () => {
    const code = await bundled(`export * from '${join(root, 'packages/client/src/react.ts')}'`, [
      'react',
    ])
    expect(code).toContain('useThread')
    expect(code).not.toContain('/api/v2')
    expect(sizeOf(code)).toBeLessThanOrEqual(1536)
  })
})

test('the page loads at most 60 KB at first, compressed', () => {
  const page = join(root, 'packages/turnstream/dist/web')
  const html = readFileSync(join(page, 'index.html'), 'utf8')
  const loaded = Array.from(html.matchAll(/(?:src|href)="(\.\/[^"]+)"/g), ([, path = '']) => path)
  expect(loaded).toHaveLength(3)
  const sizes = ['index.html', ...loaded].map((path) => sizeOf(readFileSync(join(page, path))))
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThanOrEqual(60 * 1024)
})
