// @module-tag slow
/** The table of docs/cli.md: each command ends with each of the codes that it lists, as a process. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { read } from '../../../../test/repository/sources.ts'
import { section, tableRows } from '../../../../test/repository/tables.ts'
import { openEmbeddedLog } from '../../src/server.ts'
import { type Process, turnstream } from './process.ts'
import { freePort } from './support.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

const ROWS = tableRows(section(read('docs/cli.md'), 'Commands')).map(
  ([name = '', , failed = '']) => ({ name: /`(\w+(?: \w+)?)`/.exec(name)?.[1] ?? '', failed }),
)
const FIXTURES = 'test/fixtures/anthropic-messages'
const MAIN = new URL('../../dist/cli/main.js', import.meta.url).pathname

let folder = ''
let server: Process
let url = ''
const taken = createServer((socket) => socket.destroy())

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-exit-'))
  const args = ['serve', '--port', '0', '--store', 'memory', '--scripted-speed', '0']
  server = turnstream(args, { cwd: folder, outlives: true })
  url = (await server.printed(/^turnstream listening on (\S+)\n/))[1] ?? ''
  copyFileSync(`${FIXTURES}/text.sse`, join(folder, 'good.sse'))
  copyFileSync(`${FIXTURES}/truncated-in-text.sse`, join(folder, 'cut.sse'))
  writeFileSync(join(folder, 'none.sse'), 'data: {"type":\n\n')
  for (const name of ['good', 'cut']) {
    const converted = await run('convert', ...convert('v2', `${name}.sse`), '--json')
    writeFileSync(join(folder, `${name}.jsonl`), converted.stdout)
  }
  for (const [turnId, model] of [
    ['good', 'scripted/answer'],
    ['bad', 'scripted/error'],
  ]) {
    await fetch(`${url}/api/v2/submit`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ turnId, model, prompt: 'Hello' }),
    })
  }
  const log = await openEmbeddedLog({ directory: join(folder, 'data') })
  await log.close()
  writeFileSync(join(folder, 'turns.jsonl'), (await run('export', '--store', 'data')).stdout)
  taken.listen(0, '127.0.0.1')
  await once(taken, 'listening')
})

afterAll(async () => {
  server.child.kill('SIGKILL')
  await server.ended
  taken.close()
  rmSync(folder, { recursive: true, force: true })
})

const convert = (to: string, file: string) => ['--from', 'anthropic-messages', '--to', to, file]

const SERVERS = new Set(['serve', 'codex'])
/** Run until a signal. */
const RUNNING = new Set([...SERVERS, 'cassette record'])

/** Runs a command to its end. Stops a server after its banner. */
async function run(name: string, ...args: string[]) {
  const env = { ...process.env, TURNSTREAM_URL: url, FORCE_COLOR: '1' }
  const child = spawn(process.execPath, [MAIN, ...name.split(' '), ...args], { cwd: folder, env })
  child.stdin.end()
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
    // An error is also printed here, and the process then exits by itself.
    if (RUNNING.has(name) && stdout.includes('"url"')) child.kill('SIGTERM')
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout, stderr }
}

function portCases(): [string[], string[], string[]] {
  const { port } = taken.address() as { port: number }
  const store = ['--store', 'memory', '--json']
  return [
    ['--port', '0', ...store],
    ['--port', `${port}`, ...store],
    ['--port', 'none', ...store],
  ]
}

/** Arguments for the exit codes 0, 1 and 2; undefined where the table has a dash. */
const CASES: Record<string, () => [string[], string[] | undefined, string[]]> = {
  serve: portCases,
  codex: portCases,
  keys: () => [
    ['add', 'acme', 'web', '--file', 'keys', '--json'],
    ['revoke', 'acme', 'none', '--file', 'keys', '--json'],
    ['forget', '--json'],
  ],
  doctor: portCases,
  config: () => [['print', '--json'], undefined, ['forget', '--json']],
  chat: () => [['Hello', '--json'], ['Hello', '--json', '--model', 'scripted/error'], ['--json']],
  tail: () => [['good', '--json'], ['bad', '--json'], ['--json']],
  convert: () => [
    [...convert('response', 'good.sse'), '--json'],
    [...convert('response', 'cut.sse'), '--json'],
    [...convert('response', 'none.sse'), '--json'],
  ],
  'cassette record': () => {
    const [free, taken, none] = portCases().map((args) => ['openai', ...args.slice(0, 2), '--json'])
    return [free ?? [], taken, none ?? []]
  },
  'cassette replay': () => [
    ['good.jsonl', '--json', '--speed', '0'],
    ['cut.jsonl', '--json', '--speed', '0'],
    ['none.jsonl', '--json'],
  ],
  'cassette diff': () => [
    ['good.jsonl', 'good.jsonl', '--json'],
    ['good.jsonl', 'cut.jsonl', '--json'],
    ['none.jsonl', 'good.jsonl', '--json'],
  ],
  'cassette export': () => [
    ['good', '--json', '--url', url],
    ['none', '--json', '--url', url],
    ['good', '--json', '--store', 'memory'],
  ],
  compact: () => [['data', '--json'], ['nowhere', '--json'], ['--json']],
  export: () => [
    ['--store', 'data', '--json'],
    ['--store', 'nowhere', '--json'],
    ['--store', 'memory', '--json'],
  ],
  import: () => [
    ['--store', 'copy', '--json', 'turns.jsonl'],
    ['--store', 'good.sse/copy', '--json', 'turns.jsonl'],
    ['--store', 'copy', '--json', 'none.sse'],
  ],
  completions: () => [['--json'], undefined, ['tcsh', '--json']],
}

test('the table has every command', async () => {
  const { stdout } = await run('completions', '--json')
  const { commands } = JSON.parse(stdout) as { commands: { name: string }[] }
  const names = commands.map(({ name }) => name)
  expect(ROWS.map(({ name }) => name)).toEqual(names)
  expect(Object.keys(CASES)).toEqual(names)
})

/** Each line is a JSON object. */
function checkJson(text: string): Record<string, unknown>[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

describe.each(ROWS)('$name', ({ name, failed }) => {
  const args = (code: 0 | 1 | 2) => CASES[name]?.()[code]

  test('0, with only JSON objects on standard output', async () => {
    const { code, stdout } = await run(name, ...(args(0) ?? []))
    expect(code).toBe(0)
    expect(checkJson(stdout).length).toBeGreaterThan(0)
  })

  test('1 where the table has it, with the reason as JSON', async () => {
    const failing = args(1)
    expect(failing === undefined).toBe(failed === '–')
    if (failing === undefined) return
    const { code, stdout, stderr } = await run(name, ...failing)
    expect(code).toBe(1)
    // What a server could not do is in its log.
    const told = checkJson(SERVERS.has(name) ? stderr : stdout)
    expect(JSON.stringify(told.at(-1))).toMatch(
      /"error"|"aborted"|response_error|"fail"|"equal":false/,
    )
  })

  test('2, with a message and a help hint on standard error', async () => {
    const { code, stderr } = await run(name, ...(args(2) ?? []))
    expect(code).toBe(2)
    expect(stderr).toMatch(new RegExp(`^turnstream: .+\nTry: turnstream ${name} --help\n$`))
  })
})

test.each(['chat', 'tail'])('%s without a gateway exits with 1 and a JSON error', async (name) => {
  const nobody = `http://127.0.0.1:${await freePort()}`
  const { code, stdout } = await run(name, 'good', '--json', '--url', nobody)
  expect(code).toBe(1)
  expect(checkJson(stdout)[0]).toHaveProperty('error')
})

test('the fixtures match their cases', () => {
  expect(readFileSync(join(folder, 'cut.jsonl'), 'utf8')).toContain('UPSTREAM_TRUNCATED')
})
