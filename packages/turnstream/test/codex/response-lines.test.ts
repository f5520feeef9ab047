/** An app-server that speaks `response.*`, as lines or methods that name no thread. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { StreamEventPayload } from '../../../core/src/index.ts'
import {
  type CodexProvider,
  type CodexProviderOptions,
  createCodexProvider,
} from '../../src/server.ts'

const SCRIPT = fileURLToPath(new URL('response-app-server.mjs', import.meta.url))

const QUIET = { quietPeriodMs: 50 }

function start(MODE: string, options: Partial<CodexProviderOptions> = QUIET): CodexProvider {
  const home = mkdtempSync(join(tmpdir(), 'turnstream-codex-'))
  const provider = createCodexProvider({
    binary: SCRIPT,
    home,
    models: ['m'],
    modelProvider: { baseUrl: 'http://127.0.0.1:1/v1', keyVariable: 'MODE' },
    env: { PATH: process.env['PATH'], MODE },
    idleTimeoutMs: 5000,
    ...options,
  })
  onTestFinished(async () => {
    await provider.stop()
    rmSync(home, { recursive: true, force: true })
  })
  return provider
}

function stream(provider: CodexProvider, content = 'hi') {
  const input = [{ type: 'message', id: 'u', origin: 'user', content } as const]
  const run = { runId: content, turnId: 't', threadId: 'h' }
  const tools = [{ name: 'weather', parameters: { type: 'object' } }]
  return provider.stream({ model: 'm', input, tools }, run)
}

function ask(provider: CodexProvider, content?: string): Promise<StreamEventPayload[]> {
  return stream(provider, content).toArray()
}

/** The finished items, and how the response ended. */
function outcome(events: readonly StreamEventPayload[]) {
  const done = events.flatMap((event) => (event.type === 'item_done' ? event.final_item : []))
  const items = done.toSorted((one, other) => one.id.localeCompare(other.id))
  const starts = events.filter(({ type }) => type === 'response_start')
  return { items, starts: starts.length, end: events.at(-1) }
}

const text = { type: 'message', content: 'hi' }
const call = { type: 'function_call', call_id: 'c', name: 'weather', arguments: '{"city":"Paris"}' }
const stopped = { type: 'response_done', finish_reason: 'stop' }
const calls = { type: 'response_done', finish_reason: 'tool_calls' }

describe.each(['lines', 'methods', 'unannounced lines'])('%s', (form) => {
  test.each([
    ['text completes', [text], stopped],
    ['call completes', [call], calls],
    ['text call completes', [text, call], calls],
    ['text ends', [text], stopped],
    ['call ends', [call], calls],
    ['text completes ends', [text], stopped],
    // Nothing follows the call.
    ['call', [call], calls],
    ['text call', [text, call], calls],
    ['call again', [call, { ...call, call_id: 'd' }], calls],
  ])('%s', async (mode, items, end) => {
    expect(outcome(await ask(start(`${form} ${mode}`)))).toMatchObject({ items, starts: 1, end })
  })

  test('a turn that fails is an error after the text', async () => {
    const { items, starts, end } = outcome(await ask(start(`${form} text fails`)))
    expect({ items, starts }).toEqual({ items: [], starts: 1 })
    expect(end).toMatchObject({ type: 'response_error', error: { code: 'HTTP_400' } })
  })

  test('an error of the API is the end', async () => {
    const { items, starts, end } = outcome(await ask(start(`${form} text errs`)))
    expect({ items, starts }).toEqual({ items: [], starts: 1 })
    expect(end).toMatchObject({ type: 'response_error', error: { code: 'server_error' } })
  })
})

test.each([
  [16, 'item_done'],
  [15, 'item_error'],
])('arguments of 16 characters with a limit of %i: %s', async (maxArgumentChars, end) => {
  const { stream: call } = start('lines call completes')
  const run = { runId: 'r', turnId: 't', threadId: 'h', maxArgumentChars }
  const tools = [{ name: 'weather', parameters: { type: 'object' } }]
  const input = [{ type: 'message', id: 'u', origin: 'user', content: 'hi' } as const]
  const events = await call({ model: 'm', input, tools }, run).toArray()
  expect(events.map(({ type }) => type)).toContain(end)
  expect(JSON.stringify(events).includes('TOOL_ARGUMENTS_TOO_LARGE')).toBe(end === 'item_error')
})

describe('silence', () => {
  test('after a call that is complete interrupts the turn', async () => {
    const logged: string[] = []
    await ask(start('lines call', { ...QUIET, onLog: (line) => logged.push(line) }))
    await eventually(() => expect(logged).toContain('interrupted'))
  })

  test('after a call that is complete is the end after a second by default', async () => {
    const clock = fakeClock()
    const events: StreamEventPayload[] = []
    const reading = (async () => {
      for await (const event of stream(start('lines call', { clock }))) events.push(event)
    })()
    await eventually(() => expect(events.at(-1)?.type).toBe('item_done'))
    await clock.advance(999)
    expect(events.at(-1)?.type).toBe('item_done')
    await clock.advance(1)
    await reading
    expect(outcome(events)).toMatchObject({ items: [call], end: calls })
  })

  test.each(['text', 'call unfinished'])('of %s is not the end', async (mode) => {
    const { end } = outcome(await ask(start(`lines ${mode}`, { ...QUIET, idleTimeoutMs: 300 })))
    expect(end).toMatchObject({ error: { code: 'UPSTREAM_TIMEOUT' } })
  })
})

describe('turns at the same time', () => {
  test('never get the output of each other: they fail', async () => {
    const provider = start('lines text completes waits')
    const [first, second] = await Promise.all([ask(provider, 'one'), ask(provider, 'two')])
    for (const events of [first, second]) {
      expect(outcome(events).end).toMatchObject({ error: { code: 'UPSTREAM_MALFORMED' } })
    }
  })

  test('have a process each, at most four at once', async () => {
    const provider = start('lines text completes')
    await ask(provider, 'first')
    const prompts = Array.from({ length: 12 }, (_, at) => `prompt ${at}`)
    const answers = await Promise.all(prompts.map((prompt) => ask(provider, prompt)))
    const texts = answers.map((events) => outcome(events).items)
    expect(texts).toMatchObject(prompts.map((content) => [{ type: 'message', content }]))
    expect(provider.health).toMatchObject({ restarts: 0, recycles: 12, turns: 0 })
  })
})
