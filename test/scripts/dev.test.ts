import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { formatLine, startDev } from '../../scripts/dev.mjs'

vi.setConfig({ testTimeout: 60_000 })

/** A project whose build copies src/text to built, unless that says "broken"; its server prints the copy. */
function project() {
  const root = mkdtempSync(join(tmpdir(), 'turnstream-dev-'))
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  const folder = join(root, 'src')
  mkdirSync(folder)
  const source = join(folder, 'text')
  const built = JSON.stringify(join(root, 'built'))
  const build = `const fs = require('fs'); const text = fs.readFileSync(${JSON.stringify(source)}, 'utf8')
    if (text === 'broken') process.exit(1); fs.writeFileSync(${built}, text)`
  const server = `console.log('serving ' + require('fs').readFileSync(${built}, 'utf8')); setInterval(() => {}, 1000)
    process.on('SIGTERM', () => { console.log('stopped'); process.exit() })`
  let text = ''
  const save = (content: string) => writeFileSync(source, content)
  save('one')
  const dev = startDev({
    folders: [folder],
    build: ['-e', build],
    server: ['-e', server],
    write: (part: string) => {
      text += part
    },
  })
  onTestFinished(() => dev.close())
  return { dev, save, printed: () => text }
}

test('a change builds and restarts, and a broken build keeps the old server', {
  tags: ['slow'],
}, async () => {
  const { dev, save, printed } = project()
  await expect.poll(printed, { timeout: 20_000 }).toContain('serving one')
  save('two')
  await expect.poll(printed, { timeout: 20_000 }).toContain('serving two')
  expect(printed()).toMatch(/serving one\n(.*\n)*stopped\nserving two/)
  save('broken')
  await expect.poll(printed, { timeout: 20_000 }).toContain('the build failed')
  expect(printed().match(/stopped/g)).toHaveLength(1)
  save('three')
  await expect.poll(printed, { timeout: 20_000 }).toContain('serving three')
  await dev.close()
  expect(printed().match(/stopped/g)).toHaveLength(3)
})

test.each([
  [
    'turnstream listening on http://127.0.0.1:4010',
    'turnstream listening on http://127.0.0.1:4010',
  ],
  [
    '2026-01-02T03:04:05.678Z request method=GET status=200',
    '\x1b[2m03:04:05\x1b[22m request\x1b[2m method=GET status=200\x1b[22m',
  ],
  [
    '2026-01-02T03:04:05.678Z The store failed code=STORE_FAILED',
    '\x1b[2m03:04:05\x1b[22m \x1b[33mThe store failed\x1b[39m\x1b[2m code=STORE_FAILED\x1b[22m',
  ],
  [
    '2026-01-02T03:04:05.678Z warning: no keys',
    '\x1b[2m03:04:05\x1b[22m \x1b[33mwarning: no keys\x1b[39m',
  ],
])('the line %j is shown as %j', (line, expected) => {
  expect(formatLine(line)).toBe(expected)
})
