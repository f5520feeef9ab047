/**
 * codex as an agent: its commands really run, in a temporary directory.
 * @module-tag slow
 */

import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import type { StreamOutput, ToolCall } from '../../../core/src/index.ts'
import { type CodexAgent, MemoryLog, Providers } from '../../src/server.ts'
import { startServer } from '../server/support.ts'
import { startResponsesVendor } from './responses-vendor.ts'
import { installedCodex, KEY, startCodex } from './support.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 240_000 })

// A model that codex knows, so that it has the tools of codex.
const MODEL = 'gpt-5.5'

let binary = ''
beforeAll(() => {
  binary = installedCodex()
})

interface Options extends Partial<CodexAgent> {
  readonly model?: string
  readonly idleTimeoutMs?: number
  readonly maxApprovalTimeMs?: number
}

async function start({ model = MODEL, idleTimeoutMs, maxApprovalTimeMs, ...agent }: Options = {}) {
  const directory = mkdtempSync(join(tmpdir(), 'turnstream-agent-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true, maxRetries: 10 }))
  const vendor = await startResponsesVendor()
  onTestFinished(() => vendor.close())
  const codex = startCodex(vendor.url, {
    binary,
    models: [model],
    agent: { directory, sandbox: 'danger-full-access', ...agent },
    ...(idleTimeoutMs !== undefined && { idleTimeoutMs }),
  })
  const log = new MemoryLog()
  const { url } = await startServer({
    log,
    providers: new Providers([{ provider: codex, defaultModel: model }]),
    ...(maxApprovalTimeMs !== undefined && { caps: { maxApprovalTimeMs } }),
  })
  return { directory, vendor, codex, log, url }
}

async function submit(url: string, turnId: string, prompt: string, threadId = turnId) {
  const response = await fetch(`${url}/api/v2/submit`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ turnId, threadId, prompt }),
  })
  expect(await response.text()).toContain(turnId)
}

async function outputsOf(url: string, turnId: string): Promise<StreamOutput[]> {
  const turn = (await (await fetch(`${url}/xapi/turns/${turnId}`)).json()) as {
    outputs: StreamOutput[]
  }
  return turn.outputs
}

/** Runs a turn to its end. */
async function run(url: string, prompt: string, turnId = 'turn', threadId = turnId) {
  await submit(url, turnId, prompt, threadId)
  await (await fetch(`${url}/xapi/turns/${turnId}/stream`)).text()
  return outputsOf(url, turnId)
}

function callIn(outputs: readonly StreamOutput[]): ToolCall {
  const call = outputs.find((output): output is ToolCall => output.type === 'tool_call')
  if (call === undefined) throw new Error(`no tool call in ${JSON.stringify(outputs)}`)
  return call
}

async function waitingCall(url: string, turnId: string): Promise<ToolCall> {
  return eventually(async () => {
    const call = callIn(await outputsOf(url, turnId))
    expect(call.approval).toMatchObject({ status: 'requested' })
    return call
  })
}

async function answer(url: string, turnId: string, approved: boolean): Promise<void> {
  const { approval } = await waitingCall(url, turnId)
  const response = await fetch(`${url}/api/v2/runs/${turnId}/approvals/${approval?.id}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ approved }),
  })
  expect(response.status).toBe(200)
}

function textIn(outputs: readonly StreamOutput[]): string {
  return outputs.flatMap((each) => (each.type === 'message' ? [each.content] : [])).join('\n')
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** The process that a command has written its id of. */
async function pidIn(directory: string): Promise<number> {
  return eventually(() => {
    const pid = Number(readFileSync(join(directory, 'pid'), 'utf8'))
    expect(pid).toBeGreaterThan(0)
    return pid
  })
}

test.each([MODEL, 'gpt-6.1-sol'])('%s cannot start other agents', async (model) => {
  const { url, vendor } = await start({ model })
  expect(textIn(await run(url, 'hi'))).toContain('Hello from behind codex: hi')
  expect(vendor.bodies.join('')).toContain('exec')
  expect(vendor.bodies.join('')).not.toMatch(/"(?:collaboration|spawn_agent)"/)
})

describe('a command', () => {
  test('runs in the directory, and is a tool call with its output', async () => {
    const { url, directory, codex, log } = await start()
    const outputs = await run(url, 'run: echo one > file; pwd')
    expect(callIn(outputs)).toMatchObject({
      status: 'complete',
      toolName: 'commandExecution',
      toolArguments: { command: expect.stringContaining('echo one') as unknown, cwd: directory },
      toolOutput: `${directory}\n`,
      success: true,
    })
    expect(outputs.at(-1)).toMatchObject({
      type: 'turn_complete',
      status: 'complete',
      finishReason: 'stop',
      usage: { promptTokens: 22 },
    })
    expect(outputs.at(-1)).not.toHaveProperty('pendingCalls')
    expect(readFileSync(join(directory, 'file'), 'utf8')).toBe('one\n')
    expect(codex.health).toMatchObject({ state: 'running', threads: 1 })
    expect(await log.getResponse('turn')).toContain('"exitCode":0')
  })

  test('that fails is reported, with its exit code', async () => {
    const { url, log } = await start()
    const outputs = await run(url, 'run: echo before; exit 3')
    expect(callIn(outputs)).toMatchObject({ toolOutput: 'before\n', success: false })
    expect(await log.getResponse('turn')).toContain('"exitCode":3')
  })

  test('is part of the history of the next turn', async () => {
    const { url, vendor } = await start()
    await run(url, 'run: echo remembered', 'first', 'thread')
    await run(url, 'and now?', 'second', 'thread')
    const input = vendor.requests.at(-1)?.input ?? []
    expect(input).toContainEqual(
      expect.objectContaining({ type: 'function_call', name: 'commandExecution' }),
    )
    expect(input).toContainEqual(
      expect.objectContaining({ type: 'function_call_output', output: 'remembered\n' }),
    )
  })

  test('is not handed to a client of Chat Completions', async () => {
    const { url } = await start()
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 })
    const messages = [{ role: 'user' as const, content: 'run: echo hidden' }]
    const stream = openai.chat.completions.stream({ model: `codex/${MODEL}`, messages })
    const { choices } = await stream.finalChatCompletion()
    expect(choices[0]?.finish_reason).toBe('stop')
    expect(choices[0]?.message.tool_calls).toBeUndefined()
    expect(choices[0]?.message.content).toContain('hidden')
  })

  test('gets no key', async () => {
    const { url } = await start()
    const outputs = await run(url, 'run: env')
    expect(JSON.stringify(outputs)).toContain('PATH=')
    expect(JSON.stringify(outputs)).not.toContain(KEY)
  })

  test('in a sandbox cannot read the key of another process', async () => {
    const { url, codex } = await start({ sandbox: 'workspace-write' })
    const outputs = await run(url, "run: cat /proc/*/environ | tr '\\0' '\\n'; echo read all")
    expect(readFileSync(`/proc/${codex.health.pid}/environ`, 'utf8')).toContain(KEY)
    expect(callIn(outputs).toolOutput).toContain('read all')
    expect(JSON.stringify(outputs)).not.toContain(KEY)
  })

  test('may be silent for longer than the model', async () => {
    const { url } = await start({ idleTimeoutMs: 1000 })
    const outputs = await run(url, 'run: sleep 3; echo late')
    expect(callIn(outputs)).toMatchObject({ toolOutput: 'late\n' })
  })

  test('that prints 100 MB is stored in part, with a mark', async () => {
    const { url, log } = await start({ maxOutputChars: 10_000 })
    const before = process.memoryUsage().rss
    const outputs = await run(url, 'run: yes | head -c 100000000; echo the end')
    const { toolOutput } = callIn(outputs)
    expect(toolOutput).toMatch(/characters omitted\]/)
    expect(typeof toolOutput === 'string' && toolOutput.length).toBeLessThan(10_100)
    expect((await log.getResponse('turn'))?.length).toBeLessThan(100_000)
    const events = await (await fetch(`${url}/api/v2/stream/turn`)).text()
    expect(events.length).toBeLessThan(200_000)
    expect(process.memoryUsage().rss - before).toBeLessThan(150_000_000)
  })

  test('is killed within a second of a cancel', async () => {
    const { url, directory } = await start()
    await submit(url, 'turn', 'run: echo $$ > pid; sleep 300; echo never')
    const pid = await pidIn(directory)
    await eventually(async () => callIn(await outputsOf(url, 'turn')))
    expect(isAlive(pid)).toBe(true)
    await fetch(`${url}/api/v2/runs/turn/cancel`, { method: 'POST' })
    await vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 1000 })
    const outputs = await eventually(async () => {
      const all = await outputsOf(url, 'turn')
      expect(all.at(-1)).toMatchObject({ type: 'turn_complete', status: 'aborted' })
      return all
    })
    expect(callIn(outputs)).toMatchObject({ status: 'error', errorCode: 'ITEM_CANCELLED' })
  })

  test('that is left running ends with the turn', async () => {
    const { url, directory } = await start()
    const outputs = await run(url, 'start: echo $$ > pid; sleep 300')
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_complete', status: 'complete' })
    const pid = await pidIn(directory)
    await eventually(() => expect(isAlive(pid)).toBe(false))
    expect(callIn(outputs)).toMatchObject({ status: 'error' })
  })

  test('ends with its app-server, and the turn fails', async () => {
    const { url, directory, codex } = await start()
    await submit(url, 'turn', 'run: echo $$ > pid; sleep 300')
    const pid = await pidIn(directory)
    await eventually(async () => callIn(await outputsOf(url, 'turn')))
    process.kill(codex.health.pid ?? 0, 'SIGKILL')
    await (await fetch(`${url}/xapi/turns/turn/stream`)).text()
    const outputs = await outputsOf(url, 'turn')
    expect(outputs.at(-1)).toMatchObject({ error: { code: 'UPSTREAM_TRUNCATED' } })
    expect(callIn(outputs)).toMatchObject({ status: 'error', errorCode: 'UPSTREAM_TRUNCATED' })
    await eventually(() => expect(isAlive(pid)).toBe(false))
  })
})

test.each([
  ['read-only', 'touch: cannot touch'],
  ['workspace-write', 'touched'],
] as const)('with %s a command says %s', async (sandbox, said) => {
  const { url } = await start({ sandbox })
  const outputs = await run(url, 'run: touch file && echo touched')
  expect(callIn(outputs)).toMatchObject({
    toolName: 'commandExecution',
    toolOutput: expect.stringContaining(said) as unknown,
    success: sandbox === 'workspace-write',
  })
})

test('a patch is a tool call with its diff', async () => {
  const { url, directory } = await start()
  const outputs = await run(url, 'patch: *** Add File: hello.txt\n+Hello.')
  const { toolName, toolArguments, success } = callIn(outputs)
  expect(toolName).toBe('fileChange')
  expect(success).toBe(true)
  expect(toolArguments).toMatchObject({
    changes: [
      {
        path: expect.stringContaining('hello.txt') as unknown,
        kind: { type: 'add' },
        diff: 'Hello.\n',
      },
    ],
  })
  expect(readFileSync(join(directory, 'hello.txt'), 'utf8')).toBe('Hello.\n')
})

test.each(['.', 'part', 'link'])(
  'configuration in a repository starts nothing, if the agent works in %s',
  async (place) => {
    const repository = mkdtempSync(join(tmpdir(), 'turnstream-agent-'))
    onTestFinished(() => rmSync(repository, { recursive: true, force: true, maxRetries: 10 }))
    for (const folder of [repository, join(repository, 'part')]) {
      const server = ['[mcp_servers.other]', 'command = "touch"', `args = ["${folder}/started"]`]
      mkdirSync(join(folder, '.codex'), { recursive: true })
      writeFileSync(join(folder, '.codex/config.toml'), server.join('\n'))
    }
    symlinkSync('part', join(repository, 'link'))
    execFileSync('git', ['init', '-q', repository])
    const { url } = await start({ directory: join(repository, place) })
    for (const id of ['first', 'second']) {
      const outputs = await run(url, 'run: sleep 1; ls -a', id)
      expect(callIn(outputs).toolOutput).toContain('.codex')
    }
    expect(existsSync(join(repository, 'part/started'))).toBe(false)
    expect(existsSync(join(repository, 'started'))).toBe(false)
  },
)

test('the plan is thinking', async () => {
  const { url } = await start()
  const outputs = await run(url, 'plan: go on')
  expect(outputs).toContainEqual(
    expect.objectContaining({
      type: 'thinking',
      status: 'complete',
      content: '- [x] look\n- [ ] go on (in progress)',
    }),
  )
})

const ASK: Options = { sandbox: 'read-only', approvals: 'ask' }

describe('approvals', () => {
  test('ask: the command waits, and runs when it is approved', async () => {
    const { url, directory } = await start(ASK)
    await submit(url, 'turn', 'run outside: touch approved')
    await waitingCall(url, 'turn')
    expect(existsSync(join(directory, 'approved'))).toBe(false)
    await answer(url, 'turn', true)
    await (await fetch(`${url}/xapi/turns/turn/stream`)).text()
    expect(existsSync(join(directory, 'approved'))).toBe(true)
    expect(callIn(await outputsOf(url, 'turn'))).toMatchObject({
      status: 'complete',
      success: true,
      approval: { status: 'approved' },
    })
  })

  test('ask: a declined command does not run, and the model goes on', async () => {
    const { url, directory } = await start(ASK)
    await submit(url, 'turn', 'run outside: touch declined')
    await answer(url, 'turn', false)
    await (await fetch(`${url}/xapi/turns/turn/stream`)).text()
    const outputs = await outputsOf(url, 'turn')
    expect(existsSync(join(directory, 'declined'))).toBe(false)
    expect(callIn(outputs)).toMatchObject({ success: false, approval: { status: 'declined' } })
    expect(textIn(outputs)).toContain('It returned')
  })

  test('ask: a patch also waits', async () => {
    const { url, directory } = await start(ASK)
    await submit(url, 'turn', 'patch: *** Add File: hello.txt\n+Hello.')
    await answer(url, 'turn', true)
    await (await fetch(`${url}/xapi/turns/turn/stream`)).text()
    expect(readFileSync(join(directory, 'hello.txt'), 'utf8')).toBe('Hello.\n')
  })

  test('ask: without an answer the command is declined', async () => {
    const { url, directory } = await start({ ...ASK, maxApprovalTimeMs: 500 })
    const outputs = await run(url, 'run outside: touch late')
    expect(callIn(outputs)).toMatchObject({ approval: { status: 'declined', reason: 'timeout' } })
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_complete', status: 'complete' })
    expect(existsSync(join(directory, 'late'))).toBe(false)
  })

  test('ask: a cancel ends the wait, and the command does not run', async () => {
    const { url, directory, vendor } = await start(ASK)
    await submit(url, 'turn', 'run outside: touch cancelled')
    await waitingCall(url, 'turn')
    await fetch(`${url}/api/v2/runs/turn/cancel`, { method: 'POST' })
    await (await fetch(`${url}/xapi/turns/turn/stream`)).text()
    expect(callIn(await outputsOf(url, 'turn'))).toMatchObject({ status: 'error' })
    await run(url, 'still there?', 'next')
    expect(vendor.bodies).toHaveLength(2)
    expect(existsSync(join(directory, 'cancelled'))).toBe(false)
  })

  test('refuse: what needs approval is declined', async () => {
    const { url, directory } = await start({ ...ASK, approvals: 'refuse' })
    const outputs = await run(url, 'run outside: touch refused')
    expect(callIn(outputs)).toMatchObject({ success: false })
    expect(callIn(outputs)).not.toHaveProperty('approval')
    expect(existsSync(join(directory, 'refused'))).toBe(false)
  })
})
