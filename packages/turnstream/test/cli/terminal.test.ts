import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { columnsOf, hasColours } from '../../src/cli/terminal.ts'

test.each([
  [true, {}, true],
  [false, {}, false],
  [true, { NO_COLOR: '1' }, false],
  // As https://no-color.org has it: empty is as if it were not set.
  [true, { NO_COLOR: '' }, true],
  [true, { TERM: 'dumb' }, false],
  [true, { TERM: 'xterm' }, true],
  [false, { FORCE_COLOR: '' }, true],
  [false, { FORCE_COLOR: '1' }, true],
  [false, { FORCE_COLOR: '1', NO_COLOR: '1' }, true],
  [true, { FORCE_COLOR: '0' }, false],
  [true, { FORCE_COLOR: 'false' }, false],
])('terminal: %s, environment %j: colours %s', (isTerminal, env, expected) => {
  expect(hasColours(env, isTerminal)).toBe(expected)
})

test.each([
  [{}, false],
  [{ FORCE_COLOR: '1' }, true],
  [{ FORCE_COLOR: '1', NO_COLOR: '1' }, true],
  [{ FORCE_COLOR: '0' }, false],
  [{ NO_COLOR: '1' }, false],
])('a pipe with %j has colours: %s', (env, expected) => {
  const { FORCE_COLOR: _f, NO_COLOR: _n, ...rest } = process.env
  const args = ['packages/turnstream/dist/cli/main.js', 'config', 'print']
  const run = spawnSync(process.execPath, args, { encoding: 'utf8', env: { ...rest, ...env } })
  expect(run.status).toBe(0)
  expect(run.stdout.includes('\u001b[')).toBe(expected)
})

test.each([
  [true, 60, 60],
  [true, 0, 100],
  [false, 60, 100],
])('terminal: %s, %i columns: lines of %i', (isTTY, columns, expected) => {
  expect(columnsOf({ isTTY, columns })).toBe(expected)
})

test('JSON output has no colours, even with FORCE_COLOR', () => {
  const args = ['packages/turnstream/dist/cli/main.js', 'config', 'print', '--json']
  const env = { ...process.env, FORCE_COLOR: '1' }
  const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', env })
  expect(stdout).not.toContain('\u001b')
})
