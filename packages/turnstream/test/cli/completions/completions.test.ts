/** Completions are made of the tables of the commands, and tried in bash. */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { SOURCE_NAMES, TARGET_NAMES } from '../../../../core/src/formats/registry.ts'
import { type Completion, createCompletions } from '../../../src/cli/completions.ts'
import { SETTING_NAMES, toFlag } from '../../../src/cli/serve/settings.ts'
import { fakeTerminal } from '../fake-terminal.ts'

// A process for each help, on machines that may have much else to do.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

function turnstream(...args: string[]): string {
  const run = spawnSync(process.execPath, ['packages/turnstream/dist/cli/main.js', ...args], {
    encoding: 'utf8',
  })
  expect([run.status, run.stderr]).toEqual([0, ''])
  return run.stdout
}

const SHELLS = ['bash', 'zsh', 'fish'] as const

let folder = ''
let table: Completion[] = []

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-completions-'))
  for (const shell of SHELLS) writeFileSync(join(folder, shell), turnstream('completions', shell))
  table = (JSON.parse(turnstream('completions', '--json')) as { commands: Completion[] }).commands
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const SETTING_FLAGS = SETTING_NAMES.map((name) => `--${toFlag(name)}`)

describe('the completion table', () => {
  test('lists the commands of --help in the same order with their summaries', () => {
    const help = turnstream('--help')
    const listed = [...help.matchAll(/^ {2}(\w+(?: \w+)?) {2,}(\S.*)$/gm)].map(([, name, text]) => [
      name,
      text,
    ])
    expect(table.map(({ name, summary }) => [name, summary])).toEqual(listed)
  })

  test('lists exactly the options in the help of each command', { tags: ['slow'] }, () => {
    for (const { name, options } of table) {
      const help = turnstream(...name.split(' '), '--help')
      const explained = [...help.matchAll(/^ {2}(--[\w-]+)/gm)].map(([, flag = '']) => flag)
      // Those of serve are explained there.
      if (help.includes('[options of serve]')) explained.push(...SETTING_FLAGS)
      const flags = options.map(({ flag }) => flag).filter((flag) => flag !== '--help')
      expect(flags.toSorted(), name).toEqual([...new Set(explained)].toSorted())
    }
  })

  test('marks options that take a value and lists their choices', () => {
    const option = (command: string, flag: string) =>
      table.find(({ name }) => name === command)?.options.find((each) => each.flag === flag)
    expect(option('convert', '--from')?.choices).toEqual(SOURCE_NAMES)
    expect(option('cassette replay', '--to')?.choices).toEqual(TARGET_NAMES)
    expect(option('serve', '--port')).toMatchObject({ takesValue: true, choices: [] })
    expect(option('serve', '--log-content')?.takesValue).toBe(false)
  })
})

/** What bash offers for the last of the words. */
function inBash(...words: string[]): string[] {
  const script = `source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _turnstream
printf '%s\\n' "\${COMPREPLY[@]}"`
  const args = ['--norc', '-c', script, 'bash', join(folder, 'bash'), 'turnstream', ...words]
  const { stdout, stderr } = spawnSync('bash', args, { encoding: 'utf8' })
  expect(stderr).toBe('')
  return stdout.split('\n').filter((line) => line !== '')
}

describe('in bash', () => {
  test.each([
    [['s'], ['serve']],
    [['co'], ['codex', 'config', 'convert', 'compact', 'completions']],
    [['--v'], ['--version']],
    [['convert', '--from', ''], SOURCE_NAMES],
    [['convert', '--to', 'x'], ['xapi']],
    [
      ['cassette', ''],
      ['record', 'replay', 'diff', 'export'],
    ],
    [
      ['cassette', 're'],
      ['record', 'replay'],
    ],
    [
      ['cassette', 'record', ''],
      ['openai', 'anthropic', 'gemini'],
    ],
    [['cassette', 'export', '--st'], ['--store']],
    [['cassette', 'replay', 'turn.jsonl', '--to', 'chat'], ['chat-completions']],
    [
      ['keys', ''],
      ['add', 'list', 'revoke'],
    ],
    [['keys', 'r'], ['revoke']],
    [
      ['keys', '--'],
      ['--file', '--json', '--help'],
    ],
    [['keys', 'add', 'acme', '--f'], ['--file']],
    [['completions', ''], [...SHELLS]],
    [['serve', '--shut'], ['--shutdown-grace']],
  ])('%j completes to %j', (words, expected) => {
    expect(inBash(...words)).toEqual(expected)
  })

  test('completes every setting after serve', () => {
    expect(inBash('serve', '--')).toEqual(expect.arrayContaining(SETTING_FLAGS))
  })

  test.each([[['convert', '']], [['serve', '--config', '']], [['no-such-command', '--']]])(
    '%j has no completions, so bash falls back to files',
    (words) => {
      expect(inBash(...words)).toEqual([])
      expect(turnstream('completions', 'bash')).toContain('complete -o default -F')
    },
  )
})

test('bash accepts the script', () => {
  const { status, stderr } = spawnSync('bash', ['-n', join(folder, 'bash')], { encoding: 'utf8' })
  expect([status, stderr]).toEqual([0, ''])
})

test.each(SHELLS)('the %s script contains every command and option', (shell) => {
  const script = readFileSync(join(folder, shell), 'utf8')
  for (const { name, options } of table) {
    for (const word of name.split(' ')) expect(script).toContain(word)
    // fish takes the names of options without their dashes.
    for (const { flag } of options) expect(script).toContain(flag.replace(/^--/, ''))
  }
})

describe('usage errors', () => {
  test.each([
    [[], 'completions takes one of bash, zsh, fish; got nothing'],
    [['tcsh'], "completions takes one of bash, zsh, fish; got 'tcsh'"],
    [['bash', 'zsh'], 'completions takes one shell'],
  ])('%j is refused', async (args, message) => {
    const { terminal, output } = fakeTerminal()
    await expect(createCompletions(() => []).run(args, terminal)).rejects.toThrow(message)
    expect(output()).toBe('')
  })
})
