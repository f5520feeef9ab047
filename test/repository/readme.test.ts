import { readFileSync } from 'node:fs'
import { expect, test, vi } from 'vitest'
import { recordSession, toSvg } from '../../scripts/picture.mjs'

const readme = readFileSync('README.md', 'utf8')

vi.setConfig({ testTimeout: 60_000 })

test('stays short', () => {
  expect(readme.split('\n').length).toBeLessThanOrEqual(150)
  expect(readme.split(/\s+/).length).toBeLessThanOrEqual(900)
})

test('its two commands are scripts of the package', () => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as {
    scripts: Record<string, string>
  }
  expect(readme).toContain('npm ci && npm start')
  expect(readme).toContain('npm ci && npm test')
  expect(readme).toContain('npm run test:full')
  expect(Object.keys(scripts)).toEqual(expect.arrayContaining(['start', 'test', 'test:full']))
})

test('its picture is recorded by scripts/picture.mjs: a cut and a resume to the end', {
  tags: ['slow'],
}, async () => {
  const lines = await recordSession()
  const commands = lines.filter(({ kind }) => kind === 'command').map(({ text }) => text)
  expect(commands).toHaveLength(3)
  // Records that replace one another are skipped, and then the reader keeps its cursor until it has caught up.
  const records = lines.map(({ text }) => text).filter((text) => /^1-\d+ /.test(text))
  expect(records).toEqual([...new Set(records)])
  const offsets = records.map((text) => Number.parseInt(text.slice(2), 10))
  expect(offsets).toEqual(offsets.toSorted((a, b) => a - b))
  expect(lines.at(-1)?.text).toContain('turn_complete')

  const picture = readFileSync('docs/resume.svg', 'utf8')
  expect(readme).toContain('(docs/resume.svg)')
  const withoutOffset = (text: string) => text.replaceAll(/--from [\d-]+/g, '--from')
  const shown = [...picture.matchAll(/<\/tspan>(.*)<\/text>/g)].map(([, text = '']) => text)
  expect(shown.map(withoutOffset)).toEqual(commands.map(withoutOffset))
  expect(picture).toContain('turn_complete')
  expect(toSvg([{ at: 0, kind: 'output', text: '<a & b>' }])).toContain('&lt;a &amp; b&gt;')
})
