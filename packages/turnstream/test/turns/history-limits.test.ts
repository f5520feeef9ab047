/** How much of a thread a provider is sent. */

import { describe, expect, test, vi } from 'vitest'
import { appendTo } from '../../../conformance/src/turn-log/append.ts'
import type { OutputItem } from '../../../core/src/index.ts'
import { hasCode } from '../../../core/src/protocol/errors.ts'
import { MemoryLog } from '../../src/server.ts'
import { historyRoom, threadHistory } from '../../src/turns/thread-history.ts'
import { resolveCaps } from '../../src/turns/turn-items.ts'
import { end } from './payloads.ts'
import { eventsOf, newRig } from './rig.ts'

const SIGNAL = new AbortController().signal

function message(id: string, content: string): OutputItem {
  return { type: 'message', id, content, origin: 'user' }
}

function called(call_id: string, id = `call-${call_id}`): OutputItem {
  return { type: 'function_call', id, name: 'ask', arguments: '{}', call_id }
}

function output(call_id: string, id = `output-${call_id}`): OutputItem {
  return { type: 'function_call_output', id, call_id, output: 'yes', success: true }
}

/** By a vendor. */
function executed(item: OutputItem): OutputItem {
  return { ...item, provider_metadata: { executed_by: 'provider' } }
}

function jsonOf(items: readonly OutputItem[]): string {
  return JSON.stringify({ output_items: items })
}

async function addTurn(log: MemoryLog, turnId: string, items?: readonly OutputItem[]) {
  const lease = await log.create({ turnId, threadId: 'h', owner: 'o' }, 1000)
  if (items === undefined) return
  const data = JSON.stringify({
    event_id: turnId,
    timestamp: 1,
    trace_context: { traceparent: '' },
    run_id: turnId,
    type: 'response_done',
    payload: end(),
  })
  const response = jsonOf(items)
  await appendTo(log, lease, 'events', [{ seq: 1, data }], { seal: true, response })
  const last = JSON.stringify({ type: 'turn_complete', turnId, threadId: 'h', status: 'complete' })
  await appendTo(log, lease, 'processed', [{ seq: 1, data: last }], { seal: true })
}

interface Bounds {
  bytes?: number
  tokens?: number
}

/** The ids of what is sent before a turn that follows these. */
async function sent(
  turns: readonly (readonly OutputItem[])[],
  { bytes = Infinity, tokens = Infinity }: Bounds = {},
  input: readonly OutputItem[] = [],
) {
  const log = new MemoryLog()
  for (const [index, items] of turns.entries()) await addTurn(log, `t${index + 1}`, items)
  await addTurn(log, 'now')
  const room = { bytes, tokens }
  const request = { log, threadId: 'h', turnId: 'now', input, room, signal: SIGNAL }
  const { items, turnsDropped } = await threadHistory(request)
  return { ids: items.map(({ id }) => id), turnsDropped }
}

const A = [message('a1', 'x'.repeat(100)), message('a2', 'x'.repeat(100))]
const B = [message('b1', 'x'.repeat(100))]
const C = [message('c1', 'x'.repeat(40))]
const SIZE = { A: jsonOf(A).length, B: jsonOf(B).length, C: jsonOf(C).length }
const ALL = ['a1', 'a2', 'b1', 'c1']

describe('the newest turns that fit are sent', () => {
  test.each([
    { bounds: {}, ids: ALL, turnsDropped: 0 },
    { bounds: { bytes: SIZE.A + SIZE.B + SIZE.C }, ids: ALL, turnsDropped: 0 },
    { bounds: { bytes: SIZE.A + SIZE.B + SIZE.C - 1 }, ids: ['b1', 'c1'], turnsDropped: 1 },
    { bounds: { bytes: SIZE.B + SIZE.C }, ids: ['b1', 'c1'], turnsDropped: 1 },
    { bounds: { bytes: SIZE.B + SIZE.C - 1 }, ids: ['c1'], turnsDropped: 2 },
    { bounds: { bytes: SIZE.C }, ids: ['c1'], turnsDropped: 2 },
    { bounds: { bytes: 0 }, ids: [], turnsDropped: 3 },
    { bounds: { tokens: 85 }, ids: ALL, turnsDropped: 0 },
    { bounds: { tokens: 84 }, ids: ['b1', 'c1'], turnsDropped: 1 },
    { bounds: { tokens: 35 }, ids: ['b1', 'c1'], turnsDropped: 1 },
    { bounds: { tokens: 34 }, ids: ['c1'], turnsDropped: 2 },
    { bounds: { tokens: 9 }, ids: [], turnsDropped: 3 },
    { bounds: { bytes: SIZE.C, tokens: 85 }, ids: ['c1'], turnsDropped: 2 },
  ])('within $bounds: $ids', async ({ bounds, ...expected }) => {
    expect(await sent([A, B, C], bounds)).toEqual(expected)
  })

  test('and none before one that does not fit, however small', async () => {
    const large = [message('large', 'x'.repeat(1000))]
    expect(await sent([C, large, B], { bytes: SIZE.B + SIZE.C })).toEqual({
      ids: ['b1'],
      turnsDropped: 2,
    })
  })

  test('and a thousand at most', async () => {
    const turns = Array.from({ length: 1002 }, (_, index) => [message(`m${index}`, '')])
    const { ids, turnsDropped } = await sent(turns)
    expect([ids.length, ids[0], turnsDropped]).toEqual([1000, 'm2', 2])
  })
})

describe('calls and outputs are sent in pairs', () => {
  test.each([
    { name: 'a pair in a turn', turns: [[called('1'), output('1')]], ids: ['call-1', 'output-1'] },
    { name: 'a call without output', turns: [[message('m', ''), called('1')]], ids: ['m'] },
    { name: 'an output without call', turns: [[output('1'), message('m', '')]], ids: ['m'] },
    {
      name: 'a pair in two turns',
      turns: [[called('1')], [output('1')]],
      ids: ['call-1', 'output-1'],
    },
    {
      name: 'an output whose call does not fit',
      turns: [
        [called('1'), message('m', 'x'.repeat(1000))],
        [output('1'), message('n', '')],
      ],
      bytes: 500,
      ids: ['n'],
    },
    {
      name: 'a call that the input answers',
      turns: [[called('1'), called('2')]],
      input: [output('1')],
      ids: ['call-1'],
    },
    {
      name: 'one of two calls with the same id',
      turns: [[called('1', 'old')], [called('1', 'new')]],
      input: [output('1')],
      ids: ['new'],
    },
    {
      name: 'two calls with the same id and two outputs',
      turns: [
        [called('1', 'c'), output('1', 'o')],
        [called('1', 'd'), output('1', 'p')],
      ],
      ids: ['c', 'o', 'd', 'p'],
    },
    { name: 'a call that a vendor ran', turns: [[executed(called('1'))]], ids: ['call-1'] },
    {
      name: 'a call that a vendor ran and that failed',
      turns: [[{ ...executed(called('1')), error: { code: 'X', message: '' } }]],
      ids: [],
    },
  ])('$name', async ({ turns, bytes = Infinity, input = [], ids }) => {
    expect((await sent(turns, { bytes }, input)).ids).toEqual(ids)
  })
})

describe('a turn', () => {
  const LONG = { type: 'message', origin: 'user', content: 'x'.repeat(500) } as const

  test('reports that its history was truncated', async () => {
    const rig = newRig({ rounds: [[end()], [end()], [end()]], caps: { maxHistoryBytes: 1200 } })
    const starts = []
    for (const runId of ['one', 'two', 'three']) {
      await rig.submit({ runId, threadId: 'h', input: [LONG] })
      await rig.settled()
      const [start] = await eventsOf(rig.log, runId)
      starts.push(start?.type === 'response_start' ? start.payload.history_truncated : start)
    }
    expect(starts).toEqual([undefined, { turns_dropped: 1 }, { turns_dropped: 2 }])
    expect(rig.provider.calls.map(({ request }) => request.input.length)).toEqual([1, 1, 1])
  })

  test.each([
    { caps: { maxHistoryBytes: 400 }, message: 'bytes; the limit is 400' },
    { caps: { maxHistoryTokens: 100 }, message: 'about 125 tokens; the limit is 100' },
  ])('does not start if its input never fits: $caps', async ({ caps, message }) => {
    const rig = newRig({ caps })
    const refusal = rig.submit({ runId: 'one', threadId: 'h', input: [LONG] })
    await expect(refusal).rejects.toMatchObject({
      code: 'INPUT_TOO_LARGE',
      message: expect.stringContaining(message),
    })
    expect([await rig.log.getTurn('one'), await rig.log.getThread('h')]).toEqual([
      undefined,
      undefined,
    ])
  })

  test('that exists is found again, even if its input would now be refused', async () => {
    const log = new MemoryLog()
    const first = newRig({ log, rounds: [[end()]] })
    const submission = { runId: 'one', threadId: 'h', input: [LONG] }
    const submitted = await first.submit(submission)
    const second = newRig({ log, caps: { maxHistoryTokens: 1 } })
    expect(await second.submit(submission)).toEqual(submitted)
  })
})

describe('the input of a turn', () => {
  const caps = resolveCaps({ maxHistoryBytes: 5000, maxHistoryTokens: 3000 })

  test('counts in bytes and tokens, each image as 1,000', () => {
    const data = 'A'.repeat(1000)
    const attachments = [{ type: 'image' as const, media_type: 'image/png', data }]
    const input = [{ ...message('m', 'é'.repeat(40)), attachments }, called('1'), output('1')]
    const bytes = new TextEncoder().encode(JSON.stringify(input)).length
    expect(historyRoom(input as OutputItem[], caps)).toEqual({
      bytes: 5000 - bytes,
      tokens: 3000 - 10 - 1000 - 2 - 1,
    })
  })

  test('is not encoded to find the size of long texts', () => {
    const encode = vi.spyOn(JSON, 'stringify')
    const large = resolveCaps({ maxHistoryBytes: 1_000_000 })
    // Halves of characters take six in JSON.
    const { bytes } = historyRoom([message('m', '\ud800'.repeat(5000)), called('1')], large)
    const encoded = encode.mock.results.map(({ value }) => String(value).length)
    encode.mockRestore()
    expect(Math.max(...encoded)).toBeLessThan(1000)
    expect(bytes).toBeLessThan(1_000_000 - 3 * 5000)
  })

  test('may use all of the room', () => {
    expect(historyRoom([message('m', 'x'.repeat(4900))], caps).bytes).toBeGreaterThanOrEqual(0)
    try {
      historyRoom([message('m', 'x'.repeat(5000))], caps)
      expect.unreachable()
    } catch (error) {
      expect(hasCode(error, 'INPUT_TOO_LARGE')).toBe(true)
    }
  })
})
