/** llms.txt: the format of https://llmstxt.org, generated from docs/README.md, with every document in it. */
import { existsSync, readdirSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ROUTES } from '../../packages/core/src/protocol/names.ts'
import { toLlmsText } from '../../scripts/llms.mjs'
import { read, root } from './sources.ts'

const text = read('llms.txt')
const { exports, files } = JSON.parse(read('packages/turnstream/package.json')) as {
  exports: Record<string, unknown>
  files: string[]
}
const linksOf = (markdown: string) =>
  [...markdown.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link)

test('is up to date with docs/README.md: otherwise run "node scripts/llms.mjs"', () => {
  expect(text).toBe(toLlmsText(read('docs/README.md')))
})

test('starts with a title and a summary, followed by lists of links', () => {
  expect(text).toMatch(/^# turnstream\n\n(?:> .+\n)+\n/)
  const sections = text.split(/^## /m).slice(1)
  expect(sections.map((section) => section.split('\n')[0])).toContain('Optional')
  for (const section of sections) {
    const [, ...lines] = section.trim().split('\n').filter(Boolean)
    for (const line of lines) expect(line).toMatch(/^- \[[^\]]+\]\([^)]+\)(?:: .+)?$/)
  }
  expect(text.length).toBeLessThan(6000)
})

test.each(['llms.txt', 'examples/README.md'])('the links of %s exist', (file) => {
  const links = linksOf(read(file))
  expect(links.length).toBeGreaterThan(2)
  const missing = links.filter((link) => !existsSync(join(root, dirname(file), link)))
  expect(missing).toEqual([])
})

describe('the package', () => {
  test('contains it and everything it links to', () => {
    expect(files).toContain('llms.txt')
    // npm packs the README by itself.
    const packed = [...files, 'README.md']
    const left = linksOf(text).filter(
      (link) => !packed.some((entry) => `${normalize(link)}/`.startsWith(`${entry}/`)),
    )
    expect(left).toEqual([])
  })

  test('has the entry points it names', () => {
    for (const entry of ['turnstream', 'turnstream/server', 'turnstream/testing']) {
      expect(exports).toHaveProperty([entry.replace('turnstream', '.')])
      expect(text).toContain(`\`${entry}\``)
    }
  })
})

test('every document of docs/ is in it', () => {
  const files = readdirSync(join(root, 'docs'))
  const names = files.filter((name) => name.endsWith('.md') && name !== 'README.md')
  for (const name of names) expect(text).toContain(`(docs/${name})`)
})

test('the routes it names exist', () => {
  const named = [...text.matchAll(/`(?:GET|POST) (\/[^ `]+)/g)].map(([, path = '']) =>
    path.replaceAll(/\{(\w+)\}/g, ':$1'),
  )
  expect(named).toHaveLength(4)
  for (const path of named) expect(Object.values(ROUTES)).toContain(path)
})
