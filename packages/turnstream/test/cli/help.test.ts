/** The examples that each command's help shows, run as they are printed, in the order of the commands. */

import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { startRedis } from '../../../../scripts/redis-server.mjs'
import { openEmbeddedLog } from '../../src/server.ts'
import { type Process, turnstream } from './process.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

const MAIN = new URL('../../dist/cli/main.js', import.meta.url).pathname
const OURS = `turnstream() { '${process.execPath}' '${MAIN}' "$@"; }`

function helpOf(...args: string[]): string {
  return spawnSync(process.execPath, [MAIN, ...args, '--help'], { encoding: 'utf8' }).stdout
}

const NAMES = [...helpOf().matchAll(/^ {2}(\w+(?: \w+)?) {2,}\S/gm)].map(([, name = '']) => name)
const HELPS = NAMES.map((name) => ({ name, help: helpOf(...name.split(' ')) }))

/** The lines under `Example` or `Examples`. */
function examplesIn(help: string): string[] {
  const block = /^Examples?\n((?: {2}.*\n)+)/m.exec(help)?.[1] ?? ''
  return block.split('\n').flatMap((line) => line.trim() || [])
}

let folder = ''
let server: Process
let redis: Awaited<ReturnType<typeof startRedis>>
let env: Record<string, string> = {}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-help-'))
  redis = await startRedis()
  const args = ['serve', '--port', '0', '--store', 'memory', '--scripted-speed', '0']
  server = turnstream(args, { cwd: folder, outlives: true })
  const [, url = ''] = await server.printed(/^turnstream listening on (\S+)\n/)
  env = { TURNSTREAM_URL: url, TURNSTREAM_PORT: '0' }
  // What the examples speak of: an answer, a recorded turn, a turn of the gateway, a store.
  copyFileSync('test/fixtures/openai-chat/text.sse', join(folder, 'answer.sse'))
  await fetch(`${url}/api/v2/submit`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ turnId: 'first-turn', prompt: 'Hello' }),
  })
  const log = await openEmbeddedLog({ directory: join(folder, 'data') })
  await log.close()
})

afterAll(async () => {
  server.child.kill('SIGKILL')
  await server.ended
  await redis.stop()
  rmSync(folder, { recursive: true, force: true })
})

describe.each(HELPS)('the help of $name', ({ name, help }) => {
  const examples = examplesIn(help)

  test('has summary, usage, options, exit codes and examples', () => {
    expect(help).toMatch(new RegExp(`^turnstream ${name}: .+\n\nUsage\n {2}turnstream ${name}`))
    expect(help).toMatch(/\nOptions\n {2}--/)
    expect(help).toMatch(/\nExit codes\n {2}0 .+ 2 .+\n$/)
    expect(examples.filter((line) => line.includes(`turnstream ${name}`))).not.toEqual([])
    for (const line of help.split('\n')) expect(line.length).toBeLessThanOrEqual(100)
  })

  test.each(examples)('%s', { tags: ['slow'] }, async (example) => {
    const command = example
      .replace('--port 8080', '--port 0')
      .replace(/redis:\S+/, redis.url)
      // Our own gateway is such an endpoint, too.
      .replace('http://localhost:11434/v1 --model qwen3', `${env['TURNSTREAM_URL']}/v1`)
    if (!/turnstream (serve|codex|cassette record)/.test(command)) {
      const script = `set -e\n${OURS}\n${command}`
      const args = { cwd: folder, encoding: 'utf8', env: { ...process.env, ...env } } as const
      const run = spawnSync('sh', ['-c', script], args)
      expect(run.stderr).not.toContain('turnstream:')
      expect(run.status).toBe(0)
      return
    }
    // Runs until it gets a signal.
    const words = command.split(' ').slice(1)
    const served = turnstream(words, { cwd: folder, env })
    await served.printed(/^turnstream listening on /)
    served.child.kill('SIGTERM')
    expect(await served.ended).toBe(0)
  })
})

test('a broken example is detected', () => {
  writeFileSync(join(folder, 'broken.sse'), 'data: {"type":\n\n')
  const script = `${OURS}\nturnstream convert --from openai-chat --to v2 broken.sse`
  const { status } = spawnSync('sh', ['-c', script], { cwd: folder })
  expect(status).toBe(2)
  expect(examplesIn('Example\n  one\n  two\n\nNot\n  three\n')).toEqual(['one', 'two'])
})
