/** What becomes of the commands of an agent when the app-server or the reader misbehaves. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import type { ProviderRequest, StreamEventPayload } from '../../../core/src/index.ts'
import type { Incoming } from '../../src/codex/connection.ts'
import { UnseenCommands } from '../../src/codex/unseen-commands.ts'
import {
  type CodexAgent,
  type CodexProvider,
  type CodexProviderOptions,
  createCodexProvider,
} from '../../src/server.ts'

const SCRIPT = fileURLToPath(new URL('scripted-app-server.mjs', import.meta.url))

interface Options extends Partial<CodexAgent> {
  readonly provider?: Partial<CodexProviderOptions>
}

function start(MODE: string, { provider = {}, ...agent }: Options = {}): CodexProvider {
  const directory = mkdtempSync(join(tmpdir(), 'turnstream-agent-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true, maxRetries: 10 }))
  const codex = createCodexProvider({
    binary: SCRIPT,
    home: directory,
    models: ['m'],
    modelProvider: { baseUrl: 'http://127.0.0.1:1/v1', keyVariable: 'MODE' },
    env: { PATH: process.env['PATH'], MODE },
    agent: { directory, sandbox: 'read-only', approvals: 'ask', ...agent },
    ...provider,
  })
  onTestFinished(() => codex.stop())
  return codex
}

const REQUEST: ProviderRequest = {
  model: 'm',
  input: [{ type: 'message', id: 'u', origin: 'user', content: 'hi' }],
}
const RUN = { runId: 'r', turnId: 't', threadId: 'h' }

async function ask(codex: CodexProvider, decision?: boolean): Promise<StreamEventPayload[]> {
  const asked = decision !== undefined && { isApproved: () => Promise.resolve(decision) }
  return codex.stream(REQUEST, { ...RUN, ...asked }).toArray()
}

function textIn(events: readonly StreamEventPayload[]): unknown {
  const last = events.findLast((event) => event.type === 'item_done')
  return last?.final_item.type === 'message' ? last.final_item.content : undefined
}

describe('a request for approval', () => {
  test.each([
    ['is accepted when a client approves it', { approvals: 'ask' }, true, 'accept'],
    ['is declined when a client declines it', { approvals: 'ask' }, false, 'decline'],
    ['is declined when nobody can be asked', { approvals: 'ask' }, undefined, 'decline'],
    ['is declined when all are to be refused', { approvals: 'refuse' }, true, 'decline'],
  ] as const)('%s', async (_what, agent, decision, expected) => {
    const events = await ask(start('command asks', agent), decision)
    expect(textIn(events)).toBe(`Decided: ${expected}.`)
    const requests = events.filter(
      (event) => event.type === 'item_done' && event.final_item.type === 'approval_request',
    )
    const isAsked = agent.approvals === 'ask' && decision !== undefined
    expect(requests).toMatchObject(isAsked ? [{ final_item: { call_id: 'c1' } }] : [])
  })

  test('for no known item is declined', async () => {
    expect(textIn(await ask(start('command is unnamed'), true))).toBe('Decided: decline.')
  })

  test('for permissions is refused', async () => {
    expect(textIn(await ask(start('command wants permissions'), true))).toBe('Refused with -32601.')
  })

  test('is not answered after a cancel, which interrupts the turn', async () => {
    const logged: string[] = []
    const codex = start('command asks', { provider: { onLog: (line) => logged.push(line) } })
    const abort = new AbortController()
    const decided = new Promise<boolean>((resolve) => {
      abort.signal.addEventListener('abort', () => resolve(true))
    })
    const stream = codex.stream(REQUEST, { ...RUN, isApproved: () => decided }, abort.signal)
    for await (const event of stream) {
      if (event.type === 'item_done' && event.final_item.type === 'approval_request') break
    }
    abort.abort()
    await eventually(() => expect(logged).toContain('interrupted turn-1'))
  })
})

test('a command whose app-server dies fails with it', async () => {
  const events = await ask(start('command dies'))
  expect(events.at(-1)).toMatchObject({ error: { code: 'UPSTREAM_TRUNCATED' } })
  expect(events).toContainEqual(
    expect.objectContaining({
      final_item: expect.objectContaining({ name: 'commandExecution', call_id: 'c1' }) as unknown,
    }),
  )
})

test('a command may be silent, and the model may not', async () => {
  const limit = { provider: { idleTimeoutMs: 300 } }
  expect(textIn(await ask(start('command is quiet', limit)))).toBe('At last.')
  expect((await ask(start('silent', limit))).at(-1)).toMatchObject({
    error: { code: 'UPSTREAM_TIMEOUT' },
  })
})

test.each([
  [{ directory: '/nowhere' }, 'must be the absolute path of an existing directory'],
  [{ directory: '.' }, 'must be the absolute path of an existing directory'],
  [{ sandbox: 'danger-full-access' }, 'codex needs no approvals'],
] as const)('an agent with %j fails the turn, and says why', async (agent, message) => {
  const events = await ask(start('answers', agent))
  expect(events.at(-1)).toMatchObject({ error: { code: 'OPTION_INVALID' } })
  expect(JSON.stringify(events.at(-1))).toContain(message)
})

test('an agent runs no other model than its own', async () => {
  const stream = start('answers').stream({ ...REQUEST, model: 'other' }, RUN)
  const end = (await stream.toArray()).at(-1)
  expect(end).toMatchObject({ error: { code: 'OPTION_INVALID' } })
  expect(JSON.stringify(end)).toContain('runs the agent with m')
})

describe('a command without an item', () => {
  const call = { type: 'function_call', call_id: 'c', name: 'exec_command' }
  const output = (text: unknown) => ({ type: 'function_call_output', call_id: 'c', output: text })

  function itemsOf(...messages: readonly [method: string, item: unknown][]): unknown[] {
    const commands = new UnseenCommands('/work')
    return messages.flatMap(([method, item]) => {
      const message: Incoming = { method, params: { item }, size: 1 }
      return commands.apply(message).map((each) => [each.method, each.params['item']])
    })
  }
  const raw = (item: unknown) => ['rawResponseItem/completed', item] as [string, unknown]

  test.each([
    [
      '{"cmd":"ls","workdir":"/x"}',
      'Process exited with code 2\nOutput:\nno',
      { command: 'ls', cwd: '/x', exitCode: 2 },
    ],
    ['{"cmd":"ls"}', 'rejected', { command: 'ls', cwd: '/work', exitCode: null }],
    ['not json', 7, { command: undefined, cwd: '/work', exitCode: null, aggregatedOutput: '' }],
  ])('%s is one that failed', (args, text, expected) => {
    const items = itemsOf(raw({ ...call, arguments: args }), raw(output(text)))
    const item = { type: 'commandExecution', id: 'c', status: 'failed', ...expected }
    expect(items).toEqual([
      ['item/started', expect.objectContaining(item)],
      ['item/completed', expect.objectContaining(item)],
    ])
  })

  test('is shown once, and not if codex shows it', () => {
    const late = { type: 'commandExecution', id: 'c' }
    const shown = itemsOf(raw(call), raw(output('')), raw(output('')), ['item/started', late])
    expect(shown).toHaveLength(2)
    expect(itemsOf(raw(call), ['item/started', late], raw(output('')))).toEqual([
      ['item/started', late],
    ])
  })

  test('is the only raw item that is shown', () => {
    const patch = { type: 'custom_tool_call', call_id: 'p', name: 'apply_patch' }
    const other = { ...call, name: 'update_plan' }
    expect(itemsOf(raw(patch), raw(other), raw(output('')), raw({ type: 'message' }))).toEqual([])
    expect(itemsOf(['turn/started', undefined])).toHaveLength(1)
  })
})
