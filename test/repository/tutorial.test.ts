// @module-tag slow
/** docs/tutorial.md, block by block, as a reader would paste it; a recorded stream stands for the real model. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Process, turnstream } from '../../packages/turnstream/test/cli/process.ts'
import { freePort } from '../../packages/turnstream/test/cli/support.ts'
import { linesOf, outdent, pattern } from './printed.ts'
import { read, root } from './sources.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

interface Block {
  readonly title: string
  readonly language: string
  readonly code: string
  /** What the document shows of its output. */
  readonly printed: string
}

const BLOCKS: Block[] = [
  ...read('docs/tutorial.md').matchAll(/^```(\w+)\n(.*?)^```\n(?:\n((?: {4}[^\n]*\n)+))?/gms),
].map(([, language = '', code = '', printed = ''], index) => {
  const title = `${index + 1}: ${code.split('\n')[0]}`
  return { title, language, code, printed: outdent(printed) }
})

const vendor = createServer((request, response) => {
  request.resume()
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.end(read('test/fixtures/anthropic-messages/text.sse'))
})

let folder = ''
let port = 0
let url = ''
let server: Process | undefined
const outputs = new Map<string, string>()

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-tutorial-'))
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(join(root, 'packages/turnstream'), join(folder, 'node_modules/turnstream'))
  symlinkSync(join(root, 'node_modules/openai'), join(folder, 'node_modules/openai'))
  vendor.listen(0, '127.0.0.1')
  await once(vendor, 'listening')
  port = await freePort()
  url = `http://127.0.0.1:${port}`
})

afterAll(async () => {
  await stopServer()
  vendor.closeAllConnections()
  vendor.close()
  rmSync(folder, { recursive: true, force: true })
})

async function stopServer(): Promise<void> {
  server?.child.kill('SIGINT')
  await server?.ended
}

/** `NAME=value npx turnstream serve`, in the place of the one that runs. */
async function startServer(code: string): Promise<string> {
  await stopServer()
  const [, assignments = ''] = /^((?:\w+=\S+ )*)npx turnstream serve\n$/.exec(code) ?? []
  const env = Object.fromEntries(assignments.split(' ').map((each) => each.split('=')))
  env['TURNSTREAM_SCRIPTED_SPEED'] = '2'
  if ('ANTHROPIC_API_KEY' in env) {
    const baseUrl = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}`
    const config = JSON.stringify({ providers: { anthropic: { baseUrl } } })
    writeFileSync(join(folder, 'turnstream.config.json'), config)
  }
  server = turnstream(['serve', '--port', `${port}`], { cwd: folder, env, outlives: true })
  await server.printed(/npx turnstream chat/)
  return server.stdout()
}

async function run(code: string): Promise<string> {
  const main = join(root, 'packages/turnstream/dist/cli/main.js')
  const functions = `turnstream() { '${process.execPath}' '${main}' "$@"; }\nnpx() { "$@"; }`
  const env = { ...process.env, TURNSTREAM_URL: url }
  const child = spawn('sh', ['-c', `exec 2>&1\n${functions}\n${code}`], { cwd: folder, env })
  return (await child.stdout.setEncoding('utf8').toArray()).join('')
}

describe('the tutorial', () => {
  test.each(BLOCKS)('$title', async ({ title, language, code, printed }) => {
    const ours = code.replaceAll('http://127.0.0.1:4010', url)
    if (language === 'js') {
      const [, name = ''] = /^\/\/ ([\w-]+\.mjs)\n/.exec(code) ?? []
      return writeFileSync(join(folder, name), ours)
    }
    expect(language).toBe('sh')
    // The packages are linked already: a test installs nothing.
    if (code.includes('npm install')) return expect(code).toContain('npm install turnstream openai')
    const isServer = code.includes('turnstream serve')
    const output = isServer ? await startServer(code) : await run(ours)
    outputs.set(title, output)
    const shown = linesOf(output.replaceAll(url, 'http://127.0.0.1:4010'))
    if (printed !== '') expect(`${shown.join('\n')}\n`).toMatch(pattern(printed))
  })

  test('a broken connection neither loses nor repeats anything', () => {
    const all = [...outputs.values()]
    const answer = all.find((output) => output.startsWith('**This is'))
    const cut = all.findIndex((output) => output.startsWith('{"runId":"turn-1"'))
    const followed = `${all[cut]}${all[cut + 1]}`
    const text = followed.replaceAll(/^\{.*\n|\[resuming after .*\]\n|\n\[complete\]\n/gm, '')
    expect(text).toBe(answer?.trimEnd())
  })

  test('the real model was called and its answer followed', () => {
    const all = [...outputs.values()].filter((output) => output.includes('Bonjour — ça va'))
    expect(all).toHaveLength(2)
    expect(all[1]).toContain('[complete]')
  })
})
