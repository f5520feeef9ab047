import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { bothReports, folder, PATIENCE } from './support.ts'

const SCRIPTED = fileURLToPath(new URL('../../codex/scripted-app-server.mjs', import.meta.url))
const KEY = { OPENAI_API_KEY: 'sk-key-of-the-vendor', PATH: process.env['PATH'] ?? '' }

/** The checks of codex, as `[verdict, found]` by name. */
async function checksOf(
  codex: object | undefined,
  env: Record<string, string> = KEY,
  ...args: string[]
) {
  const cwd = folder()
  if (codex !== undefined) {
    writeFileSync(join(cwd, 'turnstream.config.json'), JSON.stringify({ codex }))
  }
  const { report } = await bothReports({
    cwd,
    env,
    args: ['--port', '0', '--store', 'memory', ...args],
  })
  const own = report.checks.filter(({ name }) => name.startsWith('codex '))
  return Object.fromEntries(
    own.map(({ name, verdict, found }) => [name.slice(6), [verdict, found]]),
  )
}

/** A binary that prints this version, and does nothing else. */
function binaryOf(version: string): string {
  const file = join(folder(), 'codex')
  writeFileSync(file, `#!/bin/sh\n[ "$1" = --version ] && echo "${version}" && exit 0\nexit 3\n`)
  chmodSync(file, 0o755)
  return file
}

const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern)
const SKIPPED = ['skipped', 'needs a codex binary']

describe('codex', () => {
  test('is checked only where it is used', PATIENCE, async () => {
    expect(await checksOf(undefined)).toEqual({})
    const checks = await checksOf(undefined, { OPENAI_API_KEY: '', PATH: '/nowhere' }, '--codex')
    expect(checks).toEqual({
      key: ['fail', 'OPENAI_API_KEY is not set'],
      binary: ['fail', matching(/no codex binary/)],
      handshake: SKIPPED,
      turn: SKIPPED,
    })
  })

  test.each([
    ['0.159.9', 'fail'],
    ['0.160.0', 'ok'],
    ['1.0.0', 'ok'],
  ])('%s as version is %s', PATIENCE, async (version, verdict) => {
    const { binary } = await checksOf({ binary: binaryOf(`codex-cli ${version}`) })
    expect(binary).toEqual([verdict, matching(new RegExp(`codex-cli ${version}`))])
  })

  test('that does not run or has no version is named', PATIENCE, async () => {
    const { binary, turn } = await checksOf({ binary: '/bin/false' })
    expect([binary, turn]).toEqual([['fail', matching(/^\/bin\/false does not run/)], SKIPPED])
    const checks = await checksOf({ binary: binaryOf('hello') })
    expect(checks['binary']).toEqual(['warn', matching(/^hello at .* has no version$/)])
  })

  test('that fails the handshake is reported with the reason', PATIENCE, async () => {
    const { handshake, turn } = await checksOf({ binary: binaryOf('codex-cli 0.169.0') })
    expect(handshake).toEqual(['fail', matching(/exited with code 3/)])
    expect(turn).toEqual(['skipped', 'no handshake'])
  })

  test('that answers something else fails its turn', PATIENCE, async () => {
    const { handshake, turn } = await checksOf({ binary: SCRIPTED })
    expect(handshake).toEqual(['ok', 'completed'])
    expect(turn).toEqual(['fail', matching(/^its answer is missing/)])
  })
})

describe('the key of codex', () => {
  test.each([
    [{ keyVariable: null }, {}, 'ok', /^none required$/],
    [{ login: 'chatgpt' }, {}, 'ok', /^the chatgpt login/],
    [{}, KEY, 'ok', /^in OPENAI_API_KEY$/],
    [{ keyVariable: 'OTHER_KEY' }, KEY, 'fail', /^OTHER_KEY is not set$/],
    [{}, { OPENAI_API_KEY_FILE: '/nowhere' }, 'fail', /OPENAI_API_KEY_FILE cannot be read/],
  ])('%j with %j is %s', PATIENCE, async (setting, env, verdict, found) => {
    const { key } = await checksOf({ binary: '/nowhere/codex', ...setting }, env)
    expect(key).toEqual([verdict, matching(found)])
  })
})
