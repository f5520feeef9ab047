/** What holds of random turns as responses and as messages. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import {
  MessagesEncoder,
  type MessagesEvent,
  ResponsesEncoder,
  type ResponsesEvent,
  type StreamEvent,
} from '../../src/index.ts'
import { randomTurn } from '../processor/turns.ts'
import { eventsOf } from '../reducer/events.ts'
import { anyPayloads } from '../reducer/turns.ts'
import { overlappingTurn } from './chat-completions/turns.ts'

const HEAD = { turnId: 't', model: 'm', createdAt: 0 }

const anyTurn: fc.Arbitrary<readonly StreamEvent[]> = fc.oneof(
  overlappingTurn,
  randomTurn.map(({ events }) => events),
  anyPayloads.map((payloads) => eventsOf(payloads)),
)

function responsesOf(turn: readonly StreamEvent[], startingAfter = -1, openResponses = false) {
  const options = { ...HEAD, startingAfter, openResponses }
  const [slow, fast] = [1, 2].map(() => new ResponsesEncoder(options))
  const events = turn.flatMap((event) => slow?.encode(event) ?? [])
  const sse = turn.map((event) => fast?.encodeSse(event)).join('')
  return { events, sse, isOver: slow?.isOver === true }
}

function sseOf(event: ResponsesEvent | MessagesEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
}

const runs = { numRuns: caseCount(500) }

describe('a response', () => {
  test('has open items only while they grow, and indexes without holes', () => {
    fc.assert(
      fc.property(anyTurn, (turn) => {
        const { events, sse, isOver } = responsesOf(turn)
        expect(sse).toBe(events.map(sseOf).join('') + (isOver ? 'data: [DONE]\n\n' : ''))
        const open = new Set<number>()
        let added = 0
        for (const event of events) {
          if (event.type === 'response.output_item.added') {
            expect(event.output_index).toBe(added++)
            open.add(event.output_index)
          } else if (event.type === 'response.output_item.done') {
            expect(open.delete(event.output_index)).toBe(true)
          } else if ('output_index' in event) expect(open).toContain(event.output_index)
        }
        if (isOver) expect([...open]).toEqual([])
      }),
      runs,
    )
  })

  test('resumes after any number', () => {
    fc.assert(
      fc.property(anyTurn, fc.nat({ max: 60 }), (turn, at) => {
        const whole = responsesOf(turn).events
        expect(responsesOf(turn, at).events).toEqual(whole.slice(at + 1))
      }),
      runs,
    )
  })
})

test('Open Responses names reasoning text differently, and nothing else', () => {
  fc.assert(
    fc.property(anyTurn, fc.integer({ min: -1, max: 60 }), (turn, at) => {
      const { events, sse } = responsesOf(turn, at, true)
      const renamed = responsesOf(turn, at).events.map((event) => ({
        ...event,
        type: event.type.replace('response.reasoning_text.', 'response.reasoning.'),
      }))
      expect(events).toEqual(renamed)
      expect(sse.startsWith(events.map(sseOf).join(''))).toBe(true)
    }),
    runs,
  )
})

describe('a message', () => {
  test('has one block open at a time, and every delta is of that block', () => {
    fc.assert(
      fc.property(anyTurn, (turn) => {
        const events = messageEvents(turn)
        let open: number | undefined
        let started = 0
        for (const event of events) {
          if (event.type === 'content_block_start') {
            expect(open).toBeUndefined()
            expect(event.index).toBe(started++)
            open = event.index
          } else if ('index' in event) {
            expect(event.index).toBe(open)
            if (event.type === 'content_block_stop') open = undefined
          } else expect(open).toBeUndefined()
        }
      }),
      runs,
    )
  })

  test('is the same by the fast path, and for a client that joins anywhere', () => {
    fc.assert(
      fc.property(anyTurn, fc.nat({ max: 60 }), (turn, at) => {
        const whole = messageEvents(turn)
        const fast = new MessagesEncoder(HEAD)
        expect(turn.map((event) => fast.encodeSse(event)).join('')).toBe(whole.map(sseOf).join(''))
        const joining = new MessagesEncoder(HEAD)
        for (const event of turn.slice(0, at)) joining.encode(event)
        const joined = joining.joinSse()
        const rest = turn.slice(at).map((event) => joining.encodeSse(event))
        expect(contentOf(joined + rest.join(''))).toEqual(contentOf(whole.map(sseOf).join('')))
      }),
      runs,
    )
  })
})

function messageEvents(turn: readonly StreamEvent[]): MessagesEvent[] {
  const encoder = new MessagesEncoder(HEAD)
  return turn.flatMap((event) => encoder.encode(event))
}

/** The text of each block, however it is cut. */
function contentOf(sse: string): Record<number, string> {
  const content: Record<number, string> = {}
  // Not by a pattern: `$` also stops at U+2028, which JSON does not escape.
  for (const line of sse.split('\n').filter((each) => each.startsWith('data: '))) {
    const event = JSON.parse(line.slice('data: '.length)) as MessagesEvent
    if (event.type === 'content_block_start') content[event.index] = event.content_block.type
    if (event.type !== 'content_block_delta') continue
    const { type: _, ...text } = event.delta
    content[event.index] += Object.values(text).join('')
  }
  return content
}
