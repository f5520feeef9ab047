import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from '../repository/sources.ts'
import { describeSizes, sizeOf } from './sizes.ts'

describeSizes(() => join(root, 'packages/client/src'), 'ts')

test('the page loads at most 60 KB at first, compressed', () => {
  const page = join(root, 'packages/turnstream/dist/web')
  const html = readFileSync(join(page, 'index.html'), 'utf8')
  const loaded = Array.from(html.matchAll(/(?:src|href)="(\.\/[^"]+)"/g), ([, path = '']) => path)
  expect(loaded).toHaveLength(3)
  const sizes = ['index.html', ...loaded].map((path) => sizeOf(readFileSync(join(page, path))))
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThanOrEqual(60 * 1024)
})
