// @module-tag slow
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, parse } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'

const root = new URL('..', import.meta.url).pathname

const CASES = {
  nothing: { leaves: '', expected: 'passed' },
  'an unreferenced timer': { leaves: 'setTimeout(() => {}, 1e6).unref()', expected: 'passed' },
  'a timer': { leaves: 'setTimeout(() => {}, 1e6)', expected: /outlived .*: 1 Timeout/ },
  'a server': { leaves: 'createServer().listen(0)', expected: /outlived .*: 1 TCPServerWrap/ },
  'a child process': { leaves: "spawn('sleep', ['60'])", expected: /outlived .*ProcessWrap/ },
}

const outcomes = new Map<string, string>()
let folder = ''

/** Runs a file for each case under the watchdog, at once: it waits for seconds before it fails a file. */
beforeAll(() => {
  folder = mkdtempSync(join(root, 'node_modules/.watchdog-'))
  for (const [name, { leaves }] of Object.entries(CASES)) {
    writeFileSync(
      join(folder, `${name}.test.mjs`),
      `import { test } from 'vitest'
       import { createServer } from 'node:net'
       import { spawn } from 'node:child_process'
       test('some', () => { ${leaves} })`,
    )
  }
  const config = {
    root: folder,
    test: {
      include: ['*.test.mjs'],
      exclude: [],
      setupFiles: [`${root}test/watchdog.ts`],
      maxWorkers: Object.keys(CASES).length,
      teardownTimeout: 100,
      reporters: ['json'],
      outputFile: 'report.json',
    },
  }
  const file = join(folder, 'vitest.config.mjs')
  writeFileSync(file, `export default ${JSON.stringify(config)}`)
  spawnSync(join(root, 'node_modules/.bin/vitest'), ['run', '--config', file], { cwd: folder })
  const report = JSON.parse(readFileSync(join(folder, 'report.json'), 'utf8')) as {
    testResults: { name: string; status: string; message: string }[]
  }
  for (const { name, status, message } of report.testResults) {
    outcomes.set(parse(name).base.replace('.test.mjs', ''), status === 'passed' ? status : message)
  }
}, 60_000)

afterAll(() => rmSync(folder, { recursive: true, force: true }))

test.each(Object.entries(CASES))('a file that leaves %s behind', (name, { expected }) => {
  expect(outcomes.get(name)).toMatch(expected)
})
