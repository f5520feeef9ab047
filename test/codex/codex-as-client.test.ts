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
import { sse } from '../adapters/vendor-server.ts'
import { read } from '../repository/sources.ts'
import { section } from '../repository/tables.ts'
import { stage } from '../server/openai/stage.ts'
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

/** Runs `codex exec` in a folder of its own. */
async function runCodex(url: string, prompt: string) {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-codex-client-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const config = RECIPE.replace('http://127.0.0.1:4010', url)
  writeFileSync(join(folder, 'config.toml'), config.replace(/^model = .*/m, 'model = "vendor/m"'))
  const flags = ['--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox']
  const env = { PATH: process.env['PATH'], HOME: folder, CODEX_HOME: folder }
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
  const { folder, code, printed, errors } = await runCodex(server.url, 'Make a file')

  expect([code, errors]).toEqual([0, expect.stringContaining('succeeded')])
  expect(printed).toContain('The file is there.')
  expect(readFileSync(join(folder, 'made.txt'), 'utf8')).toBe('from-codex\n')
  expect(vendor.bodies).toHaveLength(2)
  const last = asked().messages.at(-1)
  expect(last).toMatchObject({ role: 'tool', tool_call_id: 'call_1' })
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
