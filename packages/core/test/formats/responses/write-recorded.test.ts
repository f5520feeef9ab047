/**
 * What holds of the recorded responses of every vendor.
 *
 * @module-tag slow
 */

import { APIError } from 'openai'
import { describe, expect, test } from 'vitest'
import {
  ResponsesEncoder,
  type ResponsesEvent,
  type ResponsesItem,
  type StreamEvent,
} from '../../../src/index.ts'
import { RECORDED } from '../recorded.ts'
import { differences, readShapes } from '../sdk-shapes.ts'
import { encodeAll, framesOf, HEAD, responseOf, sseOf, streamOf } from './write-support.ts'

const SHAPES = readShapes('node_modules/openai/resources/responses/responses.d.ts')
const EVENTS = new Map(
  [...SHAPES]
    .filter(([name]) => /^Response\w+Event$/.test(name))
    .map(([, shape]) => [shape.type, shape]),
)
const ITEMS: Record<ResponsesItem['type'], string> = {
  message: 'ResponseOutputMessage',
  reasoning: 'ResponseReasoningItem',
  function_call: 'ResponseFunctionToolCall',
  custom_tool_call: 'ResponseCustomToolCall',
}
/** Required by the Open Responses schema, and sent by OpenAI. */
const UNDECLARED = ['frequency_penalty', 'max_tool_calls', 'presence_penalty', 'store']

const TERMINALS = new Set(['response.completed', 'response.failed', 'response.incomplete'])

/** The same turn, as if the client had asked for everything that is optional. */
function withParameters(turn: readonly StreamEvent[], parameters: object): StreamEvent[] {
  return turn.map((event) =>
    event.type === 'response_start'
      ? ({ ...event, payload: { ...event.payload, parameters } } as StreamEvent)
      : event,
  )
}

const ASKED = { include: ['reasoning.encrypted_content'], reasoning: { summary: 'auto' } }

const CASES = RECORDED.flatMap(({ name, events }) => [
  { name, events },
  { name: `${name} with summaries`, events: withParameters(events, ASKED) },
])

test('there are fixtures of every vendor', () => {
  expect(RECORDED.length).toBeGreaterThan(200)
})

describe.each(CASES)('$name', ({ events }) => {
  const whole = framesOf(sseOf(events))

  test('any prefix and the rest after its last number add up to the stream', () => {
    for (let at = 0; at < whole.length; at++) {
      const resumed = framesOf(sseOf(events, at - 1))
      expect(resumed.join(''), `after ${at - 1}`).toBe(whole.slice(at).join(''))
    }
    expect(sseOf(events, whole.length)).toBe('data: [DONE]\n\n')
  })

  test('is the same by the fast path, and numbered without holes', () => {
    const encoded = encodeAll(events)
    const frames = encoded.map((each) => `event: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`)
    expect([...frames, 'data: [DONE]\n\n']).toEqual(whole)
    expect(encoded.map((each) => each.sequence_number)).toEqual([...encoded.keys()])
  })

  test('has only what the SDK knows, and all that it requires', () => {
    for (const event of encodeAll(events)) {
      const { type } = event
      if (type === 'error') continue // OpenAI sends it otherwise than it declares it
      expect(differences(event, EVENTS.get(type)), type).toEqual([])
      if ('item' in event) expect(differencesOf(event.item)).toEqual([])
      if (!('response' in event)) continue
      expect(differences(event.response, SHAPES.get('Response'), UNDECLARED)).toEqual([
        'no output_text', // which the SDK adds
      ])
      expect(event.response.output.flatMap(differencesOf)).toEqual([])
    }
  })

  test('opens and closes its items in order, and ends once', () => {
    checkOrder(encodeAll(events))
  })

  test('is read by the official client, and gives the response that is not streamed', async () => {
    const response = responseOf(events)
    const stream = streamOf(whole.join(''))
    const reading = stream.finalResponse()
    if (response.status === 'failed') {
      await expect(reading).rejects.toBeInstanceOf(APIError)
      return
    }
    const { output_text: _, output_parsed: __, ...read } = await reading
    expect(unparsed(read)).toEqual(unparsed(response))
  })

  test('as it grows is what the client has at that point', () => {
    const encoder = new ResponsesEncoder(HEAD)
    for (const event of events) {
      encoder.encode(event)
      const { output, status } = encoder.response
      if (!encoder.isOver) expect(status).toBe('in_progress')
      expect(output.every(({ id }) => /^(msg|fc|rs|ctc)_/.test(id))).toBe(true)
    }
  })
})

function differencesOf(item: ResponsesItem): string[] {
  return differences(item, SHAPES.get(ITEMS[item.type]))
}

/** The client adds parsed arguments and texts. */
function unparsed(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, each: unknown) =>
      key === 'parsed' || key === 'parsed_arguments' ? undefined : each,
    ),
  )
}

/** The order that the API promises. */
function checkOrder(events: readonly ResponsesEvent[]): void {
  expect(events.slice(0, 2).map(({ type }) => type)).toEqual([
    'response.created',
    'response.in_progress',
  ])
  const terminals = events.filter(({ type }) => TERMINALS.has(type))
  expect(terminals).toHaveLength(1)
  expect(events.at(-1)).toBe(terminals[0])
  const open = new Set<number>()
  let added = 0
  for (const event of events) {
    if (event.type === 'response.output_item.added') {
      expect(event.output_index).toBe(added)
      added += 1
      open.add(event.output_index)
    } else if (event.type === 'response.output_item.done') {
      expect(open.delete(event.output_index)).toBe(true)
    } else if ('output_index' in event) expect(open).toContain(event.output_index)
    else if (TERMINALS.has(event.type)) expect([...open]).toEqual([])
  }
}
