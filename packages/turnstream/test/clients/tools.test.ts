/** The commands and the program of docs/tools.md, with only the gateway's URL changed. */
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { linesOf, outdent, pattern } from '../../../../test/repository/printed.ts'
import { read } from '../../../../test/repository/sources.ts'
import { turnstream } from '../cli/process.ts'
import { ChatVendor } from './chat-vendor.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

const DOCUMENT = read('docs/tools.md')
const PROGRAM = /^```js\n\/\/ client-tools\.mjs\n(.*?)^```$/ms.exec(DOCUMENT)?.[1] ?? ''

const vendor = new ChatVendor()
let vendorUrl = ''
let folder = ''

beforeAll(async () => {
  vendorUrl = await vendor.start()
  folder = mkdtempSync(join(tmpdir(), 'turnstream-tools-'))
})
afterAll(async () => {
  await vendor.stop()
  rmSync(folder, { recursive: true, force: true })
})

test('client-tools.mjs answers the call in the next turn', async () => {
  const env = { OPENAI_COMPATIBLE_BASE_URL: vendorUrl, OPENAI_COMPATIBLE_MODEL: 'qwen3' }
  const server = turnstream(['serve', '--port', '0', '--store', 'memory'], { cwd: folder, env })
  const [, url = ''] = await server.printed(/^turnstream listening on (\S+)\n/)
  const program = PROGRAM.replace('http://127.0.0.1:4010', url)
  const child = spawn(process.execPath, ['--input-type=module', '-e', program])
  child.stderr.pipe(process.stderr)
  expect((await child.stdout.toArray()).join('')).toMatch(/^It is \d{4}-\d\d-\d\dT.*Z\n$/)
  const { turns } = (await (await fetch(`${url}/xapi/threads/demo`)).json()) as {
    turns: { outputs: { type: string; status?: string; finishReason?: string }[] }[]
  }
  expect(turns).toHaveLength(2)
  expect(turns[0]?.outputs.at(-1)).toMatchObject({ finishReason: 'tool_calls' })
  const calls = turns.flatMap(({ outputs }) => outputs.filter(({ type }) => type === 'tool_call'))
  expect(calls.map(({ status }) => status)).toEqual(['complete'])
})

/** Shell blocks, each followed by what it prints. */
const COMMANDS = [...DOCUMENT.matchAll(/^```sh\n(.*?)^```\n\n((?: {4}[^\n]*\n)+)/gms)].map(
  ([, code = '', printed = '']) => ({ code, printed: outdent(printed) }),
)

test('V4 the commands define a tool, answer its call, and load the completed call', async () => {
  const args = ['serve', '--port', '0', '--store', 'memory', '--scripted-speed', '10']
  const server = turnstream(args, { cwd: folder })
  const [, url = ''] = await server.printed(/^turnstream listening on (\S+)\n/)
  const leave = new AbortController()
  const texts: string[] = []
  let live: Promise<void> | undefined
  for (const { code, printed } of COMMANDS) {
    const command = code.replaceAll('http://127.0.0.1:4010', url)
    const check = (): void => {
      const { stdout } = spawnSync('sh', ['-c', command], { encoding: 'utf8', timeout: 45_000 })
      const lines = linesOf(stdout).map((line) => `${line}\n`)
      expect(lines.join('')).toMatch(pattern(printed))
    }
    // Someone who types a command gives the turn the time to get there.
    if (code.includes(" -d '")) check()
    else await eventually(check)
    if (live === undefined && code.includes('/threads/trip/')) {
      live = follow(`${url}/xapi/threads/trip/stream`, texts, leave.signal)
      // The next command blocks this process.
      await eventually(() => expect(texts).not.toEqual([]))
    }
  }
  await eventually(() => expect(texts.join('')).toContain('The tool answered'))
  leave.abort()
  await live
  const statuses = [...texts.join('').matchAll(/"itemId":"ask:2","status":"(\w+)"/g)]
  expect(statuses.map(([, status]) => status)).toEqual(['create', 'complete'])
})

async function follow(url: string, texts: string[], signal: AbortSignal): Promise<void> {
  try {
    const { body } = await fetch(url, { signal })
    for await (const text of body?.pipeThrough(new TextDecoderStream()) ?? []) texts.push(text)
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

test('the document has no other block', () => {
  expect(DOCUMENT.match(/^```\w+$/gm)).toEqual([...COMMANDS.map(() => '```sh'), '```js'])
})
