/**
 * `codex exec` as a client of `/v1/responses`, in front of a provider that knows only Chat Completions.
 * @module-tag slow
 */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { read } from '../../../../test/repository/sources.ts'
import { section } from '../../../../test/repository/tables.ts'
import { sse } from '../providers/vendor-server.ts'
import { stage } from '../server/openai/stage.ts'
import { startRequestLog } from './logging-proxy.ts'
import { installedCodex } from './support.ts'

vi.setConfig({ testTimeout: 90_000, hookTimeout: 240_000 })

/** The configuration in docs/openai.md. */
const RECIPE = section(read('docs/openai.md'), 'Use codex with any provider')
  .split('\n')
  .filter((line) => line.startsWith('    '))
  .map((line) => line.trim())
  .join('\n')

let codex = ''

beforeAll(() => {
  codex = installedCodex()
})

function chunk(delta: object, finish_reason: string | null = null): string {
  const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' }
  return JSON.stringify({ ...head, choices: [{ index: 0, delta, finish_reason }] })
}

const ARGUMENTS = JSON.stringify({ cmd: 'echo from-codex > made.txt' })
const CALL = {
  index: 0,
  id: 'call_1',
  type: 'function',
  function: { name: 'exec_command', arguments: ARGUMENTS },
}

/** The recipe, for a server at `url`. */
function recipeFor(url: string): string {
  const config = RECIPE.replace('http://127.0.0.1:4010', url)
  return config.replace(/^model = .*/m, 'model = "vendor/m"')
}

/** Runs `codex exec` in a folder of its own. */
async function runCodex(config: string, prompt: string) {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-codex-client-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'config.toml'), config)
  const flags = ['--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox']
  const home = { HOME: folder, CODEX_HOME: folder }
  const env = { PATH: process.env['PATH'], CODEX_API_KEY: 'none', ...home }
  const child = spawn(codex, ['exec', ...flags, prompt], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let printed = ''
  let errors = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text))
  const [code] = (await once(child, 'close')) as [number | null]
  return { folder, code, printed, errors }
}

test('codex runs a tool and gets the answer, whatever tools it brings', async () => {
  const { server, asked, vendor } = await stage('openai-chat', (response, request, count) => {
    const call = [chunk({ tool_calls: [CALL] }), chunk({}, 'tool_calls')]
    const text = [chunk({ content: 'The file is there.' }), chunk({}, 'stop')]
    return sse(...(count === 1 ? call : text), '[DONE]')(response, request, count)
  })
  const { folder, code, printed, errors } = await runCodex(recipeFor(server.url), 'Make a file')

  expect([code, errors]).toEqual([0, expect.stringContaining('succeeded')])
  expect(printed).toContain('The file is there.')
  expect(readFileSync(join(folder, 'made.txt'), 'utf8')).toBe('from-codex\n')
  expect(vendor.bodies).toHaveLength(2)
  const last = asked().messages.at(-1)
  expect(last).toMatchObject({ role: 'tool', tool_call_id: 'call_1' })
})

test('codex that prefers WebSockets tries one, and falls back at once', async () => {
  const answer = sse(chunk({ content: 'Over HTTP.' }), chunk({}, 'stop'), '[DONE]')
  const { server, vendor } = await stage('openai-chat', answer)
  const proxy = await startRequestLog(server.url)
  // With its own provider it does, by another address too.
  const config = `model = "vendor/m"\nopenai_base_url = "${proxy.url}/v1"\n`
  const { code, printed, errors } = await runCodex(config, 'Hello')

  expect([code, printed]).toEqual([0, expect.stringContaining('Over HTTP.')])
  expect(errors).not.toMatch(/reconnecting|retrying/i)
  const requests = proxy.requests.filter((line) => line.includes('/v1/responses'))
  expect(requests).toEqual(['GET /v1/responses', 'POST /v1/responses'])
  expect(vendor.bodies).toHaveLength(1)
})

test.each([
  ['is cut off', []],
  ['loses its network', ['--silent']],
])(
  'codex that %s in the middle of an answer gets all of it, for one provider call',
  async (_how, flags) => {
    const args = ['examples/cut-codex.mjs', ...flags, codex]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    expect(stdout.split('\n')).toEqual([
      'answer: The answer is complete.',
      'requests of codex: 2',
      'requests to the provider: 1',
      '',
    ])
  },
)

test('the example explains how to install codex', async () => {
  const run = promisify(execFile)(process.execPath, ['examples/cut-codex.mjs', '/missing'])
  await expect(run).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('npm install'),
  })
})
