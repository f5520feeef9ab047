import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { caseCount } from '../../../../../test/case-count.ts'
import { EventStamp } from '../../../src/formats/event-stamp.ts'
import { isStreamEvent, type StreamEventPayload } from '../../../src/index.ts'
import {
  blockDelta,
  blockStart,
  blockStop,
  citedBlock,
  ending,
  messageDelta,
  messageStart,
  messageStop,
  textBlock,
  thinkingBlock,
  toolUse,
  translate,
} from './events.ts'

const TERMINALS = new Set(['response_done', 'response_error'])

/** What must hold of any output: well-formed, one end for each response, items opened and ended once. */
function checkPayloads(payloads: readonly StreamEventPayload[]): void {
  const stamp = new EventStamp({ now: () => 0 })
  const open = new Set<string>()
  const seen = new Set<string>()
  let isRunning = false
  for (const payload of payloads) {
    expect(isStreamEvent(stamp.stamp(payload)), JSON.stringify(payload)).toBe(true)
    expect(isRunning).toBe(payload.type !== 'response_start')
    if (payload.type === 'response_start') isRunning = true
    if (payload.type === 'item_start') {
      expect(seen.has(payload.item_id)).toBe(false)
      seen.add(payload.item_id)
      open.add(payload.item_id)
    } else if ('item_id' in payload) {
      expect(open.has(payload.item_id)).toBe(true)
      if (payload.type !== 'item_delta') open.delete(payload.item_id)
    }
    if (TERMINALS.has(payload.type)) {
      expect(open.size).toBe(0)
      isRunning = false
    }
  }
  expect(isRunning).toBe(false)
  expect(payloads.length).toBeGreaterThan(0)
}

const index = fc.constantFrom<unknown>(0, 1, 2, 3, -1, 0.5, 1e300, '0', null, undefined)
const goodIndex = fc.constantFrom(0, 1, 2, 3)
const word = fc.oneof(fc.string(), fc.constantFrom('\ud83d', '\ude00', '__proto__', '{"a":1}', ''))
const block = fc.oneof(
  fc.record({ type: fc.constant('text'), text: word }),
  fc.record({ type: fc.constant('thinking'), thinking: word, signature: word }),
  fc.record({
    type: fc.constantFrom('tool_use', 'server_tool_use', 'mcp_tool_use'),
    id: word,
    name: word,
    input: fc.jsonValue(),
  }),
  fc.record({
    type: fc.constantFrom('web_search_tool_result', 'mcp_tool_result'),
    tool_use_id: word,
    content: fc.jsonValue(),
  }),
  fc.record({
    type: fc.constantFrom('redacted_thinking', 'compaction', 'container_upload', 'new'),
  }),
)
const delta = fc.oneof(
  fc.record({ type: fc.constant('text_delta'), text: word }),
  fc.record({ type: fc.constant('thinking_delta'), thinking: word }),
  fc.record({ type: fc.constant('signature_delta'), signature: word }),
  fc.record({ type: fc.constant('input_json_delta'), partial_json: word }),
  fc.record({ type: fc.constant('citations_delta'), citation: fc.object() }),
  fc.record({ type: fc.constantFrom('compaction_delta', 'new_delta') }),
)
const usage = fc.record(
  {
    input_tokens: fc.oneof(fc.nat(), fc.double(), fc.constant(Number.MAX_SAFE_INTEGER)),
    cache_read_input_tokens: fc.oneof(fc.nat(), fc.constant(Number.MAX_SAFE_INTEGER)),
    output_tokens: fc.oneof(fc.integer(), fc.string()),
  },
  { requiredKeys: [] },
)
const reason = fc.constantFrom('end_turn', 'tool_use', 'toString', null, 7)
const event = fc.oneof(
  { weight: 1, arbitrary: usage.map(messageStart) },
  { weight: 6, arbitrary: fc.tuple(goodIndex, block).map(([i, b]) => blockStart(i, b)) },
  { weight: 12, arbitrary: fc.tuple(goodIndex, delta).map(([i, d]) => blockDelta(i, d)) },
  { weight: 5, arbitrary: goodIndex.map(blockStop) },
  { weight: 1, arbitrary: fc.tuple(reason, usage).map(([r, u]) => messageDelta(r, u)) },
  { weight: 1, arbitrary: fc.constantFrom<unknown>(messageStop, { type: 'ping' }, null, []) },
)
const anyEvent = fc.oneof(
  { weight: 8, arbitrary: event },
  { weight: 1, arbitrary: fc.tuple(index, block).map(([i, b]) => blockStart(i, b)) },
  { weight: 1, arbitrary: fc.tuple(index, delta).map(([i, d]) => blockDelta(i, d)) },
  { weight: 1, arbitrary: fc.record({ type: fc.constantFrom('error', 'message_start', 'x') }) },
  { weight: 1, arbitrary: fc.anything() },
)

test('any events in any order give well-formed responses', () => {
  fc.assert(
    fc.property(fc.array(anyEvent, { maxLength: 40 }), (events) => {
      checkPayloads(translate(events, { maxArgumentChars: 20 }))
    }),
    { numRuns: caseCount(1000) },
  )
})

const turn = [
  messageStart(),
  ...thinkingBlock(0, 'sig', 'Let', ' me'),
  ...textBlock(1, 'Hi ', 'there'),
  ...citedBlock(2, 'cited', { type: 'char_location' }),
  ...toolUse(3, 't1', 'a', '{"x":', '1}'),
  blockStart(4, { type: 'server_tool_use', id: 's1', name: 'web_search', input: { query: 'x' } }),
  blockStop(4),
  blockStart(5, { type: 'web_search_tool_result', tool_use_id: 's1', content: [] }),
  blockStop(5),
  ...textBlock(6, 'end'),
  ...ending('tool_use'),
]

/** A place in the turn, and what happens to it there. */
const mutation = fc.record({
  at: fc.nat({ max: turn.length - 1 }),
  to: fc.nat({ max: turn.length - 1 }),
  how: fc.constantFrom('drop', 'repeat', 'move', 'break'),
  field: fc.constantFrom('index', 'delta', 'content_block', 'message', 'usage', 'type'),
  value: fc.oneof(fc.anything(), word),
})

test('a turn with events lost, repeated, moved or broken gives well-formed responses', () => {
  fc.assert(
    fc.property(fc.array(mutation, { minLength: 1, maxLength: 4 }), (mutations) => {
      const events: unknown[] = [...turn]
      for (const { at, to, how, field, value } of mutations) {
        const [event] = how === 'repeat' ? events.slice(at, at + 1) : events.splice(at, 1)
        if (how === 'repeat' || how === 'move') events.splice(to, 0, event)
        if (how === 'break') events.splice(at, 0, { ...(event as object), [field]: value })
      }
      checkPayloads(translate(events))
    }),
    { numRuns: caseCount(1000) },
  )
})

test('a turn cut anywhere gives well-formed payloads that do not depend on the rest', () => {
  const whole = translate(turn)
  for (let cut = 0; cut < turn.length; cut++) {
    const payloads = translate(turn.slice(0, cut))
    checkPayloads(payloads)
    expect(payloads.at(-1)).toMatchObject({ error: { code: 'UPSTREAM_TRUNCATED' } })
    const common = payloads.findIndex(
      ({ type }) => type === 'item_error' || type === 'usage_update',
    )
    expect(payloads.slice(0, Math.max(common, 0))).toEqual(whole.slice(0, Math.max(common, 0)))
  }
})
