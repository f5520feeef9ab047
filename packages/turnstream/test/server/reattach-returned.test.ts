/** An agent that was cut off repeats its request with the items that it has received, and gets the rest of the turn. */

import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { startRedis } from '../../../../scripts/redis-server.mjs'
import { payloads } from '../../../conformance/src/index.ts'
import type { OutputItem } from '../../../core/src/index.ts'
import { folderOfTest, openLog } from '../log/embedded/support.ts'
import { OpenLogs } from '../log/redis/support.ts'
import type { HeldCall } from './held-provider.ts'
import { ask, contentOf, turnsOf } from './reattach-support.ts'
import { sealed, startServer, type TestServer } from './support.ts'
import type { Wire } from './wire.ts'

const SESSION = { 'thread-id': 'session-1' }
const USER = { type: 'message', role: 'user', content: 'Run it' }
const BODY = {
  model: 'held/m',
  stream: true,
  include: ['reasoning.encrypted_content'],
  reasoning: { effort: 'low', summary: 'auto' },
  tools: [
    { type: 'function', name: 'run', parameters: {} },
    { type: 'custom', name: 'patch' },
  ],
}

const SUMMARY = [{ type: 'summary_text', text: 'A command.' }]
const OPENAI = { type: 'reasoning', summary: SUMMARY, encrypted_content: 'blob' }
const THOUGHT = {
  ...payloads.reasoning('b', 'A command.'),
  provider_metadata: { openai: OPENAI },
}
const CALL = payloads.functionCall('c', { call_id: 'call-1', name: 'run', arguments: '{"a":1}' })
const PATCH = payloads.functionCall('d', {
  call_id: 'call-2',
  name: 'patch',
  arguments: '{"input":"+ line"}',
})

/** The items of the turn, as the client has them. */
const SAID = {
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text: 'I will.' }],
}
const THOUGHT_BACK = { type: 'reasoning', summary: SUMMARY, encrypted_content: 'blob' }
const CALL_BACK = { type: 'function_call', call_id: 'call-1', name: 'run', arguments: '{"a":1}' }
const PATCH_BACK = { type: 'custom_tool_call', call_id: 'call-2', name: 'patch', input: '+ line' }
const OUTPUT = { type: 'function_call_output', call_id: 'call-1', output: 'done' }
const ALL_BACK = [SAID, THOUGHT_BACK, CALL_BACK, PATCH_BACK]

function send(
  server: TestServer,
  returned: readonly object[] = [],
  { headers = SESSION, ...body }: { headers?: Record<string, string>; stream?: boolean } = {},
): Promise<Wire> {
  const input = [USER, ...returned]
  return ask(server, { path: '/v1/responses', headers, body: { ...BODY, ...body, input } })
}

type Item = Extract<OutputItem, { type: 'reasoning' | 'function_call' }>

function add(call: HeldCall, item: Item): void {
  const { id: item_id, type: item_type } = item
  call.stream.addEvent({ type: 'item_start', item_id, item_type, origin: 'agent' })
  call.stream.addEvent(payloads.itemDone(item))
}

/** A request whose turn has finished a message, a thought and a call, and goes on. */
async function begin(server: TestServer) {
  const next = server.held.nextCall()
  const wire = await send(server)
  const call = await next
  call.say('I will.')
  call.stream.addEvent(payloads.itemDone(payloads.message('a', 'I will.')))
  add(call, THOUGHT)
  add(call, CALL)
  await wire.until('"call_id":"call-1","name":"run","arguments":"{\\"a\\":1}"}}')
  return { wire, call }
}

function finish(call: HeldCall): void {
  add(call, PATCH)
  const usage = payloads.tokenUsage(3, 4)
  call.stream.addEvent(payloads.responseDone({ usage, finish_reason: 'tool_calls' }))
  call.stream.complete()
}

/** The turn that a request joined. It must start one. */
async function joinedBy(
  server: TestServer,
  returned: readonly object[],
  headers?: Record<string, string>,
): Promise<string | undefined> {
  const next = server.held.nextCall()
  const wire = await send(server, returned, headers && { headers })
  const call = await next
  call.say('One ')
  await wire.until('One ')
  return wire.header('x-turnstream-reattached')
}

interface Event {
  readonly type: string
  readonly sequence_number: number
  readonly output_index?: number
  readonly item?: { readonly type: string }
  readonly response?: { readonly output: readonly { readonly type: string }[] }
}

async function eventsOf(wire: Wire): Promise<Event[]> {
  await wire.until('[DONE]')
  const lines = contentOf(wire).match(/^data: \{.*$/gm) ?? []
  return lines.map((line) => JSON.parse(line.slice(6)) as Event)
}

/** The types of the items that a stream has, with their places. */
function itemsOf(events: readonly Event[]) {
  const done = events.filter(({ type }) => type === 'response.output_item.done')
  return done.map(({ item, output_index }) => [output_index, item?.type])
}

const TYPES = ['message', 'reasoning', 'function_call', 'custom_tool_call']

describe('a request with the first items of its turn', () => {
  test.each([0, 1, 2, 3])('%i of them: gets the rest while it runs', async (count) => {
    const server = await startServer()
    const { wire, call } = await begin(server)
    const again = await send(server, ALL_BACK.slice(0, count))
    await again.until('response.created')
    finish(call)
    const [whole, rest] = [await eventsOf(wire), await eventsOf(again)]
    expect(again.header('x-turnstream-reattached')).toBe(call.runId)
    expect(turnsOf(server)).toBe(1)
    const types = TYPES.slice(count)
    expect(itemsOf(rest)).toEqual(types.map((type, index) => [index, type]))
    expect(rest.at(-1)?.response?.output.map(({ type }) => type)).toEqual(types)
    // The numbers are those of the whole stream.
    const numbers = new Map(whole.map(({ sequence_number, type }) => [sequence_number, type]))
    for (const { sequence_number, type } of rest) expect(numbers.get(sequence_number)).toBe(type)
    expect(rest.at(-1)?.sequence_number).toBe(whole.at(-1)?.sequence_number)
  })

  test('gets the rest of a turn that has just ended, once for each number of items', async () => {
    const server = await startServer()
    const { wire, call } = await begin(server)
    finish(call)
    await eventsOf(wire)
    for (const count of [1, 3, 4]) {
      const again = await send(server, ALL_BACK.slice(0, count))
      expect(itemsOf(await eventsOf(again))).toHaveLength(4 - count)
      expect(again.header('x-turnstream-reattached')).toBe(call.runId)
    }
    expect(await joinedBy(server, ALL_BACK)).toBeUndefined()
  })

  test('gets the rest without a stream', async () => {
    const server = await startServer()
    const next = server.held.nextCall()
    await send(server, [], { stream: false })
    const call = await next
    call.say('I will.')
    call.stream.addEvent(payloads.itemDone(payloads.message('a', 'I will.')))
    add(call, THOUGHT)
    finish(call)
    await sealed(server.log, call.runId)
    const again = await send(server, [SAID, THOUGHT_BACK], { stream: false })
    await again.until('"output":')
    const { output } = JSON.parse(contentOf(again).trim().split('\n').at(-1) ?? '')
    expect(output).toMatchObject([{ type: 'custom_tool_call', input: '+ line' }])
  })

  test('may be cut off again and again, with more items each time', async () => {
    const server = await startServer()
    const { wire, call } = await begin(server)
    const stored = vi.spyOn(server.log.keyedRecords, 'add')
    wire.close()
    await expect.poll(() => stored.mock.settledResults.length).toBe(1)
    for (const count of [1, 1, 3]) {
      const again = await send(server, ALL_BACK.slice(0, count))
      await again.until('response.created')
      expect(again.header('x-turnstream-reattached')).toBe(call.runId)
      const before = stored.mock.settledResults.length
      again.close()
      await expect.poll(() => stored.mock.settledResults.length).toBe(before + 1)
    }
    finish(call)
    await sealed(server.log, call.runId)
    for (const count of [4, 3]) {
      const again = await send(server, ALL_BACK.slice(0, count))
      expect(itemsOf(await eventsOf(again))).toHaveLength(4 - count)
    }
    expect(turnsOf(server)).toBe(1)
  })

  test('may leave out the text of reasoning, of which codex returns only summaries', async () => {
    const server = await startServer()
    const { call } = await begin(server)
    const again = await send(server, [SAID, { ...THOUGHT_BACK, summary: [], content: null }])
    await again.until('response.created')
    expect(again.header('x-turnstream-reattached')).toBe(call.runId)
  })
})

describe('a request gets a new turn', () => {
  test.each<[string, readonly object[]]>([
    ['with another text', [{ ...SAID, content: 'I will not.' }]],
    ['with another summary', [SAID, { ...THOUGHT_BACK, summary: [{ text: 'Another.' }] }]],
    ['with another blob', [SAID, { ...THOUGHT_BACK, encrypted_content: 'other' }]],
    ['without the blob', [SAID, { ...THOUGHT_BACK, encrypted_content: null }]],
    ['with another call id', [SAID, THOUGHT_BACK, { ...CALL_BACK, call_id: 'call-9' }]],
    ['with another tool', [SAID, THOUGHT_BACK, { ...CALL_BACK, name: 'stop' }]],
    ['with other arguments', [SAID, THOUGHT_BACK, { ...CALL_BACK, arguments: '{"a":2}' }]],
    ['with items in another order', [THOUGHT_BACK, SAID]],
    ['without the first item', [THOUGHT_BACK]],
    ['with an item that the turn has not finished', ALL_BACK],
    ['with the output of a call', [SAID, THOUGHT_BACK, CALL_BACK, OUTPUT]],
    ['with a further message', [SAID, USER]],
  ])('%s', async (_name, returned) => {
    const server = await startServer()
    await begin(server)
    expect(await joinedBy(server, returned)).toBeUndefined()
  })

  test.each<[string, Record<string, string>]>([
    ['in another session', { 'thread-id': 'session-2' }],
    ['without a session', { 'x-thread-id': 'session-1' }],
    ['with x-turnstream-reattach: no', { ...SESSION, 'x-turnstream-reattach': 'no' }],
  ])('%s', async (_name, headers) => {
    const server = await startServer()
    await begin(server)
    expect(await joinedBy(server, [SAID], headers)).toBeUndefined()
  })
})

function calls(count: number): object[] {
  return Array.from({ length: count }, () => CALL_BACK)
}

test('a request is compared with four turns at most, and its notes are read together', async () => {
  const server = await startServer()
  for (let count = 0; count < 10; count++) {
    const next = server.held.nextCall()
    await send(server, calls(count))
    const call = await next
    call.say('I will.')
    call.finish()
    await sealed(server.log, call.runId)
  }
  const tail = vi.spyOn(server.log, 'tail')
  const notes = vi.spyOn(server.log.keyedRecords, 'read')
  const next = server.held.nextCall()
  await send(server, calls(63))
  await next
  const turns = tail.mock.calls.map(([turnId]) => turnId)
  const before = new Set(server.held.calls.slice(0, 10).map(({ runId }) => runId))
  expect(turns.filter((turnId) => before.has(turnId))).toHaveLength(4)
  expect(notes.mock.calls[0]?.[0]).toHaveLength(64)
})

describe('another instance serves the rest', () => {
  let redis: Awaited<ReturnType<typeof startRedis>>

  beforeAll(async () => {
    redis = await startRedis()
  })

  afterAll(() => redis.stop())

  test('with Redis, while the turn runs elsewhere', async () => {
    const logs = new OpenLogs({ url: redis.url })
    onTestFinished(() => logs.close())
    const first = await startServer({ log: await logs.open() })
    const second = await startServer({ log: await logs.open() })
    const { call } = await begin(first)
    const again = await send(second, [SAID, THOUGHT_BACK])
    await again.until('response.created')
    finish(call)
    expect(itemsOf(await eventsOf(again))).toEqual([
      [0, 'function_call'],
      [1, 'custom_tool_call'],
    ])
    expect(turnsOf(second)).toBe(0)
  })

  test('after a restart with the embedded store', async () => {
    const folder = folderOfTest()
    const log = await openLog(folder)
    const first = await startServer({ log })
    const { wire, call } = await begin(first)
    finish(call)
    await eventsOf(wire)
    await first.close()
    await log.close()
    const second = await startServer({ log: await openLog(folder) })
    const again = await send(second, [SAID, THOUGHT_BACK, CALL_BACK])
    expect(itemsOf(await eventsOf(again))).toEqual([[0, 'custom_tool_call']])
    expect(turnsOf(second)).toBe(0)
  })
})
