/** The command line as a person meets it: the built program, started as a process. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

function turnstream(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['dist/cli/main.js', ...args], {
    encoding: 'utf8',
    env: { ...process.env, FORCE_COLOR: undefined, NO_COLOR: undefined },
  })
  return { status, stdout, stderr }
}

test('--version prints the version of the package', () => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
  expect(turnstream('--version')).toEqual({ status: 0, stdout: `${version}\n`, stderr: '' })
})

test.each([[[]], [['--help']], [['demo', '-h']]])('%j teaches', (args) => {
  const { status, stdout } = turnstream(...args)
  expect(status).toBe(0)
  expect(stdout).toContain('turnstream demo [--speed <n>] [--json]')
})

test('demo plays the turn without colours where nobody looks', () => {
  const { status, stdout, stderr } = turnstream('demo', '--speed', '0')
  expect([status, stderr]).toEqual([0, ''])
  expect(stdout).toContain('snapshots out')
  expect(stdout).not.toContain('\u001b')
})

test.each([
  [['serv'], "there is no command named 'serv'"],
  [['demo', 'extra'], "demo takes no arguments, got 'extra'"],
  [['demo', '--speed', 'fast'], "--speed takes a number, zero or more, got 'fast'"],
  [['demo', '--speed', '-1'], '--speed'],
  [['--no-such-option'], '--no-such-option'],
])('%j is refused with exit code 2', (args, message) => {
  const { status, stdout, stderr } = turnstream(...args)
  expect([status, stdout]).toEqual([2, ''])
  expect(stderr).toContain(message)
  expect(stderr).toContain('turnstream --help')
})
