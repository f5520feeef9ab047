import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { describe, expect, test } from 'vitest'
import { RESPONSES_EVENT_TYPES } from '../../../src/formats/responses/decode.ts'
import { responsesOf } from '../outcome.ts'
import {
  added,
  completed,
  created,
  ended,
  text,
  textDelta,
  translate,
  wireMessage,
} from './events.ts'

/** The types that the vendor's own client declares. `response.create` is sent, not received. */
function declaredTypes(): string[] {
  const main = createRequire(import.meta.url).resolve('openai')
  const path = new URL('resources/responses/responses.d.ts', `file://${main}`)
  const found = readFileSync(path, 'utf8').matchAll(/type: '(response\.[a-z_.]+)'/g)
  return [...new Set([...found].map(([, type = '']) => type))].filter(
    (type) => type !== 'response.create',
  )
}

describe('types', () => {
  test('every type of the API is known', () => {
    expect(RESPONSES_EVENT_TYPES.size).toBe(58)
    const declared = declaredTypes()
    expect(declared.length).toBeGreaterThan(50)
    expect(declared.filter((type) => !RESPONSES_EVENT_TYPES.has(type))).toEqual([])
  })

  test.each([...RESPONSES_EVENT_TYPES])('%s is known, whatever fields it lacks', (type) => {
    const unknown: string[] = []
    translate([created, { type }], { onUnknown: (name) => unknown.push(name) })
    expect(unknown).toEqual([])
  })

  test('types without output do not hide items that only the end contains', () => {
    const end = ended('completed', { output: [wireMessage('Hi')] })
    const silent = ['response.in_progress', 'response.mcp_list_tools.completed']
    const events = [created, ...silent.map((type) => ({ type })), end]
    expect(responsesOf(translate(events))).toMatchObject([{ output_items: [{ content: 'Hi' }] }])
  })

  test('unknown types are reported once each, even after the end', () => {
    const unknown: string[] = []
    const odd = [{ type: 'response.new' }, { type: 'keepalive' }, { type: '__proto__' }]
    const events = [...odd, created, ...odd, ...text(0, 'Hi'), completed, ...odd]
    const payloads = translate(events, { onUnknown: (type) => unknown.push(type) })
    expect(unknown).toEqual(['response.new', 'keepalive', '__proto__'])
    expect(responsesOf(payloads)).toMatchObject([{ status: 'complete' }])
  })

  test('[DONE] is not an event', () => {
    expect(translate(['[DONE]', created, '[DONE]', completed, '[DONE]'])).toEqual(
      translate([created, completed]),
    )
  })
})

describe('malformed data ends the response', () => {
  test.each([
    ['null', null, 'the event is not an object'],
    ['a list', [], 'the event is not an object'],
    ['a text', 'data', 'the event is not an object'],
    ['no type', {}, 'type is not a string'],
    ['a type that is not a string', { type: 7 }, 'type is not a string'],
    [
      'a delta that is not a string',
      textDelta(0, 7),
      'response.output_text.delta without a usable delta',
    ],
    [
      'a delta that is missing',
      { type: 'response.refusal.delta' },
      'response.refusal.delta without a usable delta',
    ],
    ['an invalid item', added(0, 'message'), 'response.output_item.added without a usable item'],
    ['an item without a type', added(0, {}), 'response.output_item.added without a usable item'],
  ])('%s', (_, event, message) => {
    const error = { code: 'UPSTREAM_MALFORMED', message }
    expect(translate([created, textDelta(0, 'Hi'), event, completed]).slice(-2)).toMatchObject([
      { type: 'item_error', error },
      { type: 'response_error', error },
    ])
    expect(translate([event]).map(({ type }) => type)).toEqual(['response_start', 'response_error'])
  })

  test.each([
    ['an index that is not a number', textDelta('0', 'Hi')],
    ['an index out of range', textDelta(-1.5, 'Hi', 1e300)],
    ['no index and no id', { type: 'response.output_text.delta', delta: 'Hi' }],
    ['a part without a type', { type: 'response.content_part.added', part: null }],
    ['an invalid annotation', { type: 'response.output_text.annotation.added' }],
    ['an invalid final text', { type: 'response.output_text.done', output_index: 0, text: 7 }],
    ['invalid final arguments', { type: 'response.function_call_arguments.done' }],
    ['an invalid final input', { type: 'response.custom_tool_call_input.done', input: {} }],
    ['an invalid response', { type: 'response.created', response: 7 }],
  ])('tolerated: %s', (_, event) => {
    expect(translate([created, event, completed]).at(-1)).toMatchObject({ type: 'response_done' })
  })
})
