/** V4: one card for each call, completed in its first place, live and after a reload. */

import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { StreamEventPayload, StreamOutput } from '../../../core/src/index.ts'
import type { Provider } from '../../src/index.ts'
import { MemoryLog } from '../../src/server.ts'
import { answer, end, call as toolCall } from '../turns/payloads.ts'
import { puppet, type Round } from '../turns/rig.ts'
import { call, finishedTurn, readUntil, startServer, type TestServer } from './support.ts'

const ASK: Round = [...toolCall('1', 'ask', { call_id: 'c' }), end('tool_calls')]
const ANSWER: readonly StreamEventPayload[] = [...answer('2', 'Done'), end()]

function server(rounds: readonly Round[], log = new MemoryLog()): Promise<TestServer> {
  const provider: Provider = puppet(rounds, 'asking')
  return startServer({ more: [provider], log })
}

function ask(to: TestServer, turnId: string, body: object = {}) {
  return finishedTurn(to, { turnId, threadId: 'thread', providerId: 'asking', ...body })
}

function reply(output: string, success = true) {
  const input = [{ type: 'function_call_output', call_id: 'c', output, success }]
  return { prompt: undefined, input }
}

interface Loaded {
  readonly turns: readonly { readonly turnId: string; readonly outputs: StreamOutput[] }[]
  readonly nextCursor?: string
}

async function load(from: TestServer, query = ''): Promise<Loaded> {
  const { json } = await call(from, `GET /xapi/threads/thread${query}`)
  return json as Loaded
}

/** `turn: item status` of every call, in the order of the page. */
function cards({ turns }: Loaded): string[] {
  return turns.flatMap(({ turnId, outputs }) =>
    outputs.flatMap((output) =>
      output.type === 'tool_call' ? [`${turnId}: ${output.itemId} ${output.status}`] : [],
    ),
  )
}

describe('V4 a loaded thread', () => {
  test.each(['oldest', 'newest'])(
    'has one card, completed, in its first place (%s first)',
    async (first) => {
      const to = await server([ASK, ANSWER])
      await ask(to, 'a')
      expect(cards(await load(to, `?first=${first}`))).toEqual(['a: a:1 create'])
      await ask(to, 'b', reply('{"n":1}'))
      const loaded = await load(to, `?first=${first}`)
      expect(cards(loaded)).toEqual(['a: a:1 complete'])
      const { outputs = [] } = loaded.turns.find(({ turnId }) => turnId === 'a') ?? {}
      expect(outputs.map(({ type }) => type)).toEqual([
        'turn_started',
        'message',
        'tool_call',
        'turn_complete',
      ])
      expect(outputs[2]).toMatchObject({ toolName: 'ask', toolOutput: { n: 1 }, callId: 'c' })
    },
  )

  test('has the completions that lie on later pages', async () => {
    const to = await server([ASK, ANSWER, ANSWER, ANSWER])
    await ask(to, 'a')
    await ask(to, 'b')
    await ask(to, 'c', reply('late'))
    await ask(to, 'd')
    const first = await load(to, '?limit=1')
    expect(cards(first)).toEqual(['a: a:1 complete'])
    const rest = await load(to, `?limit=3&cursor=${first.nextCursor}`)
    expect(cards(rest)).toEqual(['c: a:1 complete'])
    const newest = await load(to, '?first=newest&limit=3')
    expect(cards(newest)).toEqual(['c: a:1 complete'])
    const oldest = await load(to, `?first=newest&limit=3&cursor=${newest.nextCursor}`)
    expect(cards(oldest)).toEqual(['a: a:1 complete'])
  })

  test('has a call that nobody answers open, and those of reused ids each in their place', async () => {
    const to = await server([ASK, ASK, ANSWER])
    await ask(to, 'a')
    await ask(to, 'b')
    await ask(to, 'c', reply('for b'))
    expect(cards(await load(to))).toEqual(['a: a:1 create', 'b: b:1 complete'])
  })

  test('has the completion where it is stored when the turn of the call is gone', async () => {
    const to = await server([ASK, ANSWER])
    await ask(to, 'a')
    await ask(to, 'b', reply('ok'))
    await to.log.deleteTurn('a')
    expect(cards(await load(to))).toEqual(['b: a:1 complete'])
  })

  test('has the completion where it is stored when the turn of the call has expired', async () => {
    const clock = fakeClock(0)
    const log = new MemoryLog({ clock, retentionMs: 60_000 })
    const to = await server([ASK, ANSWER], log)
    await ask(to, 'a')
    await clock.advance(40_000)
    await ask(to, 'b', reply('ok'))
    await clock.advance(40_000)
    expect(cards(await load(to))).toEqual(['b: a:1 complete'])
  })
})

test('V4 the stream of a thread completes the card, live and from its start', async () => {
  const to = await server([ASK, ANSWER])
  await ask(to, 'a')
  const live = readUntil(`${to.url}/xapi/threads/thread/stream`, '"content":"Done"')
  await ask(to, 'b', reply('ok'))
  const again = readUntil(`${to.url}/xapi/threads/thread/stream`, '"content":"Done"')
  for (const stream of [await live, await again]) {
    const merged = new Map<string, StreamOutput>()
    for (const [, data = ''] of (stream.json as string).matchAll(/^data: (\{.*)$/gm)) {
      const output = JSON.parse(data) as StreamOutput
      if ('itemId' in output) merged.set(output.itemId, output)
    }
    expect([...merged.keys()]).toEqual(['a-user-prompt', 'a:1', 'b:1'])
    const { outputs = [] } = (await load(to)).turns[0] ?? {}
    expect(merged.get('a:1')).toEqual(outputs[2])
    expect(merged.get('a:1')).toMatchObject({ status: 'complete', toolOutput: 'ok' })
  }
})

describe('V4 a submit with an output', () => {
  test('of an unknown call is 400, with another output 409, and neither starts a turn', async () => {
    const to = await server([ASK, ANSWER])
    const body = { threadId: 'thread', turnId: 'x', ...reply('no') }
    const unknown = await call(to, 'POST /api/v2/submit', { body })
    expect([unknown.status, unknown.json.error.code]).toEqual([400, 'TOOL_CALL_UNKNOWN'])
    await ask(to, 'a')
    await ask(to, 'b', reply('yes'))
    for (const path of ['/api/v2/submit', '/xapi/threads/thread/turn'] as const) {
      const other = await call(to, `POST ${path}`, { body })
      expect([other.status, other.json.error.code]).toEqual([409, 'TOOL_CALL_ANSWERED'])
    }
    expect(await to.log.getTurn('x')).toBeUndefined()
  })

  test('is accepted on the API of a vendor, whatever it answers', async () => {
    const to = await server([ANSWER])
    const fn = { name: 'ask', arguments: '{}' }
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', tool_calls: [{ id: 'c', type: 'function', function: fn }] },
      { role: 'tool', tool_call_id: 'c', content: 'ok' },
    ]
    const body = { model: 'asking/m', messages }
    const { status, json } = await call(to, 'POST /v1/chat/completions', { body })
    expect(status).toBe(200)
    expect(json.choices[0].message).toMatchObject({ content: 'Done' })
    expect(json.choices[0].message.tool_calls).toBeUndefined()
  })
})

describe('V14 a turn that replaces the answer to a call', () => {
  const submit = (to: TestServer, body: object) => call(to, 'POST /api/v2/submit', { body })
  const outputIn = ({ turns }: Loaded) =>
    turns.flatMap(({ outputs }) =>
      outputs.flatMap((output) => (output.type === 'tool_call' ? [output.toolOutput] : [])),
    )

  test.each(['first', 'second'])('answers it again: %s output', async (output) => {
    const to = await server([ASK, ANSWER, ANSWER])
    await ask(to, 'a')
    await ask(to, 'b', reply('first'))
    await ask(to, 'c', { ...reply(output), replaces: 'b' })
    const loaded = await load(to)
    expect(cards(loaded)).toEqual(['a: a:1 complete'])
    expect(outputIn(loaded)).toEqual([output])
    // With replaced turns, each answer is where it was given; the card has the one that counts.
    const all = await load(to, '?replaced=true')
    expect(cards(all)).toEqual(['a: a:1 complete', 'b: a:1 complete'])
    expect(outputIn(all)).toEqual([output, 'first'])
  })

  test('leaves the call of a replaced turn unknown', async () => {
    const to = await server([ASK, ANSWER])
    await ask(to, 'a')
    await ask(to, 'b', { replaces: 'a' })
    const body = { threadId: 'thread', ...reply('late') }
    const { status, json } = await submit(to, body)
    expect([status, json.error.code]).toEqual([400, 'TOOL_CALL_UNKNOWN'])
  })

  test('may not answer a call that it replaces', async () => {
    const to = await server([ASK, ANSWER])
    await ask(to, 'a')
    const body = { threadId: 'thread', ...reply('late'), replaces: 'a' }
    const { status, json } = await submit(to, body)
    expect([status, json.error.code]).toEqual([400, 'TOOL_CALL_UNKNOWN'])
    expect(cards(await load(to))).toEqual(['a: a:1 create'])
  })
})
