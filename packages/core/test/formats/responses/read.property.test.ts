import { readdirSync, readFileSync } from 'node:fs'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../../test/case-count.ts'
import { RESPONSES_EVENT_TYPES } from '../../../src/formats/responses/decode.ts'
import {
  added,
  argumentsDelta,
  call,
  completed,
  created,
  done,
  faultOf,
  inputDelta,
  summaryDelta,
  text,
  textDelta,
  translate,
  wireCustom,
} from './events.ts'

const odd = fc.oneof(
  fc.string(),
  fc.constantFrom<unknown>('\ud83d', '\ude00', '__proto__', -1, 0.5, 1e300, NaN, null, [], {}),
)
const index = fc.oneof({ weight: 4, arbitrary: fc.constantFrom<unknown>(0, 1, 2) }, odd)
const item = fc.record(
  {
    type: fc.constantFrom(
      'message',
      'reasoning',
      'function_call',
      'custom_tool_call',
      'web_search_call',
      'shell_call',
      'shell_call_output',
      'compaction',
      '__proto__',
    ),
    id: odd,
    call_id: odd,
    name: odd,
    arguments: odd,
    input: odd,
    status: odd,
    action: fc.jsonValue(),
    content: fc.oneof(odd, fc.array(fc.record({ type: odd, text: odd, refusal: odd }))),
    summary: fc.oneof(odd, fc.array(fc.record({ text: odd }))),
  },
  { requiredKeys: ['type'] },
)
const part = fc.record({
  type: fc.constantFrom('output_text', 'refusal', 'reasoning_text', 'summary_text', 'x'),
  text: odd,
})
const response = fc.record(
  {
    model: odd,
    status: odd,
    output: fc.oneof(odd, fc.array(item, { maxLength: 3 })),
    usage: fc.record({ input_tokens: odd, output_tokens: odd }),
    error: odd,
    incomplete_details: fc.record({ reason: odd }),
  },
  { requiredKeys: [] },
)
/** Any known type with any fields, most of them right. */
const event = fc.record(
  {
    type: fc.constantFrom(...RESPONSES_EVENT_TYPES),
    output_index: index,
    content_index: index,
    summary_index: index,
    item_id: odd,
    delta: fc.oneof({ weight: 5, arbitrary: fc.string() }, odd),
    text: odd,
    refusal: odd,
    arguments: odd,
    input: odd,
    name: odd,
    part,
    annotation: fc.jsonValue(),
    item,
    response,
  },
  { requiredKeys: ['type', 'delta', 'item'] },
)
const goodIndex = fc.constantFrom(0, 1, 2)
const goodEvent = fc.oneof(
  fc.tuple(goodIndex, item).map(([at, each]) => added(at, each)),
  fc.tuple(goodIndex, item).map(([at, each]) => done(at, each)),
  fc.tuple(goodIndex, fc.string()).map(([at, delta]) => textDelta(at, delta)),
  fc.tuple(goodIndex, goodIndex, fc.string()).map(([at, s, delta]) => summaryDelta(at, s, delta)),
  fc.tuple(goodIndex, fc.string()).map(([at, delta]) => argumentsDelta(at, delta)),
  fc.tuple(goodIndex, fc.string()).map(([at, delta]) => inputDelta(at, delta)),
  fc.constantFrom(created, completed),
)
const anyEvent = fc.oneof(
  { weight: 6, arbitrary: goodEvent },
  { weight: 3, arbitrary: event },
  { weight: 1, arbitrary: fc.anything() },
)

test('any events in any order give well-formed responses', () => {
  fc.assert(
    fc.property(fc.array(anyEvent, { maxLength: 40 }), (events) => {
      expect(faultOf(translate(events, { maxArgumentChars: 20 }))).toBeUndefined()
    }),
    { numRuns: caseCount(1500) },
  )
})

const turn: unknown[] = [
  created,
  added(0, { type: 'reasoning', id: 'rs' }),
  summaryDelta(0, 0, 'Hm.'),
  summaryDelta(0, 1, 'Ah.'),
  done(0, { type: 'reasoning', id: 'rs', summary: [{ text: 'Hm.' }, { text: 'Ah.' }] }),
  ...text(1, 'Let ', 'me see'),
  ...call(2, 'c1', 'f', '{"a":', '1}'),
  added(3, wireCustom('c2', 'g', '')),
  inputDelta(3, 'x'),
  done(3, wireCustom('c2', 'g', 'x')),
  added(4, { type: 'web_search_call', id: 'ws' }),
  done(4, { type: 'web_search_call', id: 'ws', status: 'completed' }),
  ...text(5, 'end'),
  completed,
]

/** A place in the turn, and what happens to it there. */
const mutation = fc.record({
  at: fc.nat({ max: turn.length - 1 }),
  to: fc.nat({ max: turn.length - 1 }),
  how: fc.constantFrom('drop', 'repeat', 'move', 'break'),
  field: fc.constantFrom('type', 'output_index', 'delta', 'item', 'response'),
  value: fc.oneof(fc.anything(), odd),
})

test('a turn with events lost, repeated, moved or broken gives well-formed responses', () => {
  fc.assert(
    fc.property(fc.array(mutation, { minLength: 1, maxLength: 4 }), (mutations) => {
      const events = [...turn]
      for (const { at, to, how, field, value } of mutations) {
        const [moved] = how === 'repeat' ? events.slice(at, at + 1) : events.splice(at, 1)
        if (how === 'repeat' || how === 'move') events.splice(to, 0, moved)
        if (how === 'break') events.splice(at, 0, { ...(moved as object), [field]: value })
      }
      expect(faultOf(translate(events))).toBeUndefined()
    }),
    { numRuns: caseCount(1000) },
  )
})

describe('a stream cut after any event is truncated', () => {
  const folder = new URL('../../../../../test/fixtures/openai-responses/', import.meta.url)
  const names = readdirSync(folder).filter((name) => name.endsWith('.sse'))
  const terminal = /^response\.(?:completed|incomplete|failed)$|^error$/

  test.each(names)('%s', (name) => {
    const data = readFileSync(new URL(name, folder), 'utf8').matchAll(/^data: (\{.*\})$/gm)
    const events = [...data].map(([, json = '']) => JSON.parse(json) as { type: string })
    const isMalformed = name.startsWith('malformed')
    const end = isMalformed ? 2 : events.findIndex(({ type }) => terminal.test(type))
    expect(faultOf(translate(events))).toBeUndefined()
    for (let cut = 0; cut <= (end === -1 ? events.length : end); cut++) {
      const payloads = translate(events.slice(0, cut))
      expect(faultOf(payloads)).toBeUndefined()
      expect(payloads.at(-1)).toMatchObject({ error: { code: 'UPSTREAM_TRUNCATED' } })
    }
  })
})
