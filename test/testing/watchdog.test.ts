import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

const root = new URL('../..', import.meta.url).pathname

/** Runs a test file of its own under the watchdog, and says how that ended. */
function outcomeOf(body: string): string {
  const folder = mkdtempSync(join(root, 'node_modules/.watchdog-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(
    join(folder, 'some.test.mjs'),
    `import { test } from 'vitest'
     import { createServer, connect } from 'node:net'
     import { spawn } from 'node:child_process'
     test('some', () => { ${body} })`,
  )
  const config = `export default { root: ${JSON.stringify(folder)}, test: {
    include: ['*.test.mjs'], exclude: [], setupFiles: [${JSON.stringify(`${root}test/watchdog.ts`)}] } }`
  writeFileSync(join(folder, 'vitest.config.mjs'), config)
  const args = ['run', '--config', join(folder, 'vitest.config.mjs'), '--teardownTimeout', '100']
  try {
    execFileSync(join(root, 'node_modules/.bin/vitest'), args, {
      cwd: folder,
      encoding: 'utf8',
      stdio: 'pipe',
    })
    return 'passed'
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string }
    return /outlived the tests of this file: (.*)/.exec(stdout + stderr)?.[1] ?? stderr
  }
}

test.each([
  ['nothing', '', 'passed'],
  ['a timer that does not keep the process', 'setTimeout(() => {}, 1e6).unref()', 'passed'],
  ['a timer', 'setTimeout(() => {}, 1e6)', /^1 Timeout/],
  ['a server', 'createServer().listen(0)', /^1 TCPServerWrap/],
  ['a child process', "spawn('sleep', ['60'])", /ProcessWrap/],
])('what is left behind: %s', { timeout: 60_000 }, (_name, body, expected) => {
  expect(outcomeOf(body)).toMatch(expected)
})
