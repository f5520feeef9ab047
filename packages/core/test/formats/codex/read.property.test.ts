import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { caseCount } from '../../../../../test/case-count.ts'
import { EventStamp } from '../../../src/formats/event-stamp.ts'
import type { StreamEventPayload } from '../../../src/index.ts'
import { streamEventFault } from '../../../src/protocol/stream-event-guard.ts'
import { legacyEvent, odd, responseEvent, v2Event, word } from './arbitraries.ts'
import {
  agentMessage,
  clientTool,
  completed,
  counts,
  type Fields,
  failedAttempt,
  note,
  rawCall,
  rawCompleted,
  said,
  started,
  textDelta,
  tokenUsage,
  translate,
  turnCompleted,
  turnStarted,
} from './events.ts'

const TERMINALS = new Set(['response_done', 'response_error', 'turn_aborted_by_user'])

/** What is wrong with an output: malformed, an end too many or too few, items not opened or ended once. */
function faultOf(payloads: readonly StreamEventPayload[]): string | undefined {
  const stamp = new EventStamp({ now: () => 0 })
  const open = new Set<string>()
  const seen = new Set<string>()
  let isRunning = false
  for (const payload of payloads) {
    const fault = streamEventFault(stamp.stamp(payload))
    if (fault !== undefined) return `${payload.type}: ${fault}`
    if (isRunning === (payload.type === 'response_start')) return `${payload.type} out of place`
    if (payload.type === 'response_start') isRunning = true
    if (payload.type === 'item_start') {
      if (seen.has(payload.item_id)) return `${payload.item_id} begins twice`
      seen.add(payload.item_id)
      open.add(payload.item_id)
    } else if ('item_id' in payload) {
      if (!open.has(payload.item_id)) return `${payload.type} of an item that is not open`
      if (payload.type !== 'item_delta') open.delete(payload.item_id)
    }
    if (TERMINALS.has(payload.type)) {
      if (open.size > 0) return 'an item stays open'
      isRunning = false
    }
  }
  return isRunning || payloads.length === 0 ? 'no end' : undefined
}

function checkPayloads(payloads: readonly StreamEventPayload[]): void {
  expect(faultOf(payloads)).toBeUndefined()
}

test.each([
  ['today', fc.oneof({ weight: 9, arbitrary: v2Event }, { weight: 1, arbitrary: odd })],
  ['earlier times', fc.oneof({ weight: 9, arbitrary: legacyEvent }, { weight: 1, arbitrary: odd })],
  ['all times', fc.oneof(v2Event, legacyEvent, responseEvent, odd)],
])('any events of %s in any order give well-formed responses', (_, event) => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 40 }), (events) => {
      checkPayloads(translate(events, { maxArgumentChars: 20 }))
    }),
    { numRuns: caseCount(400) },
  )
})

const command = { type: 'commandExecution', id: 'x', command: 'ls', cwd: '/' }
const turn: Fields[] = [
  turnStarted(),
  note('rawResponseItem/completed', { item: { type: 'message', id: 'h', role: 'user' } }),
  started({ type: 'reasoning', id: 'r', summary: [], content: [] }),
  note('item/reasoning/summaryTextDelta', { itemId: 'r', summaryIndex: 0, delta: 'Hm' }),
  completed({ type: 'reasoning', id: 'r', summary: ['Hm'], content: [] }),
  note('rawResponseItem/completed', {
    item: { type: 'reasoning', id: 'r', encrypted_content: 'e' },
  }),
  ...said('m', 'Hi ', 'there'),
  rawCall('x', 'exec_command', '{"cmd":"ls"}'),
  started(command),
  note('item/commandExecution/outputDelta', { itemId: 'x', delta: 'a' }),
  completed({ ...command, status: 'completed', aggregatedOutput: 'ab', exitCode: 0 }),
  rawCompleted(counts(5, 5)),
  failedAttempt,
  ...said('n', 'So'),
  rawCall('w', 'get_weather', '{"city":"Paris"}'),
  started(clientTool('w')),
  rawCompleted(counts(7, 7)),
  tokenUsage(counts(12, 12), counts(7, 7)),
  turnCompleted('interrupted'),
]

/** A place in the turn, and what happens to it there. */
const mutation = fc.record({
  at: fc.nat({ max: turn.length - 1 }),
  to: fc.nat({ max: turn.length - 1 }),
  how: fc.constantFrom('drop', 'repeat', 'move', 'break'),
  field: fc.constantFrom(
    'item',
    'itemId',
    'delta',
    'turn',
    'turnId',
    'threadId',
    'usage',
    'tokenUsage',
  ),
  value: fc.oneof(fc.anything(), word),
})

test('a turn with events lost, repeated, moved or broken gives well-formed responses', () => {
  fc.assert(
    fc.property(fc.array(mutation, { minLength: 1, maxLength: 4 }), (mutations) => {
      const events: unknown[] = [...turn]
      for (const { at, to, how, field, value } of mutations) {
        const [event] = how === 'repeat' ? events.slice(at, at + 1) : events.splice(at, 1)
        if (how === 'repeat' || how === 'move') events.splice(to, 0, event)
        const { method, params } = (event ?? {}) as Fields
        if (how === 'break') {
          events.splice(at, 0, { method, params: { ...(params as Fields), [field]: value } })
        }
      }
      checkPayloads(translate(events))
    }),
    { numRuns: caseCount(500) },
  )
})

test('a turn cut anywhere is truncated, and earlier payloads do not depend on the rest', () => {
  const whole = translate(turn)
  expect(whole.at(-1)).toMatchObject({ type: 'response_done', finish_reason: 'tool_calls' })
  for (let cut = 0; cut < turn.length; cut++) {
    const payloads = translate(turn.slice(0, cut))
    checkPayloads(payloads)
    expect(payloads.at(-1)).toMatchObject({ error: { code: 'UPSTREAM_TRUNCATED' } })
    const streamed = payloads.filter(({ type }) => type === 'item_delta')
    const deltas = whole.filter(({ type }) => type === 'item_delta')
    expect(streamed).toEqual(deltas.slice(0, streamed.length))
  }
})

test('a message is the same however it is streamed', () => {
  fc.assert(
    fc.property(fc.array(word, { maxLength: 10 }), fc.nat({ max: 10 }), (texts, kept) => {
      const text = texts.join('')
      const payloads = translate([
        turnStarted(),
        started(agentMessage('m', '')),
        ...texts.slice(0, kept).map((each) => textDelta('m', each)),
        completed(agentMessage('m', text)),
        turnCompleted(),
      ])
      const streamed = payloads.flatMap((each) =>
        each.type === 'item_delta' ? [each.delta_content] : [],
      )
      expect(streamed.join('')).toBe(text)
      expect(payloads.at(-2)).toMatchObject({ type: 'item_done', final_item: { content: text } })
    }),
  )
})
