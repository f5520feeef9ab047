import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type ChatCompletion,
  type ChatFrame,
  type ChatMessage,
  isExecutedByProvider,
  type StreamEvent,
  toChatCompletion,
} from '../../../src/index.ts'
import { decodeStreamEvent } from '../../../src/schemas.ts'
import { randomTurn } from '../../processor/turns.ts'
import { eventsOf } from '../../reducer/events.ts'
import { anyPayloads } from '../../reducer/turns.ts'
import { overlappingTurn, sequentialTurn } from './turns.ts'
import {
  chunksOf,
  deltasOf,
  encodeAll,
  HEAD,
  type Heard,
  hear,
  isError,
  sseOf,
} from './write-support.ts'

/** What holds of every stream that has ended, whatever it was made of. */
function checkWellFormed(frames: readonly ChatFrame[]): void {
  const deltas = deltasOf(frames)
  expect(deltas[0]).toEqual({ role: 'assistant', content: '' })
  expect(deltas.filter((delta) => 'role' in delta)).toHaveLength(1)
  const heads = chunksOf(frames).map(({ id, object, created, model }) =>
    JSON.stringify([id, object, created, model]),
  )
  expect(new Set(heads)).toEqual(
    new Set([JSON.stringify([HEAD.id, 'chat.completion.chunk', HEAD.created, HEAD.model])]),
  )
  const errors = frames.filter(isError)
  const finishes = frames.filter((frame) => isFinish(frame))
  expect(errors.length + finishes.length).toBe(1)
  const last = frames.at(-1)
  expect(last === errors[0] || last === finishes[0] || isUsage(last)).toBe(true)
  expect(() => hear(frames)).not.toThrow()
}

function isFinish(frame: ChatFrame): boolean {
  return !isError(frame) && frame.choices.some(({ finish_reason }) => finish_reason !== null)
}

function isUsage(frame: ChatFrame | undefined): boolean {
  return frame !== undefined && !isError(frame) && frame.choices.length === 0
}

function messageHeard({ content, refusal, reasoning, calls }: Heard): ChatMessage {
  return {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    refusal: refusal === '' ? null : refusal,
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(calls.length > 0 && {
      tool_calls: calls.map(({ id, ...fn }) => ({ id, type: 'function' as const, function: fn })),
    }),
  }
}

describe('a streamed turn', () => {
  test('is well-formed, also when items fail, are left open or contradict themselves', () => {
    fc.assert(fc.property(randomTurn, ({ events }) => checkWellFormed(encodeAll(events))))
  })

  test('is well-formed with calls of every kind', () => {
    fc.assert(
      fc.property(overlappingTurn, fc.boolean(), fc.boolean(), (turn, includeUsage, keep) => {
        checkWellFormed(encodeAll(turn, { includeUsage, keepTextAfterToolCalls: keep }))
      }),
    )
  })

  test('has the same content as the completion without streaming', () => {
    fc.assert(
      fc.property(sequentialTurn, fc.boolean(), (turn, keepTextAfterToolCalls) => {
        const heard = hear(encodeAll(turn, { includeUsage: true, keepTextAfterToolCalls }))
        const { choices, usage } = completionOf(turn, keepTextAfterToolCalls)
        expect(messageHeard(heard)).toEqual(choices[0].message)
        expect(heard.finish).toBe(choices[0].finish_reason)
        expect(heard.usage ?? undefined).toEqual(usage)
      }),
    )
  })

  test('has the same content when items overlap, if text after calls is kept', () => {
    fc.assert(
      fc.property(overlappingTurn, (turn) => {
        const { calls, ...heard } = hear(encodeAll(turn, { keepTextAfterToolCalls: true }))
        const whole = completionOf(turn, true).choices[0].message
        const { tool_calls, ...message } = messageHeard({ ...heard, calls })
        const { tool_calls: wholeCalls, ...wholeMessage } = whole
        expect(message).toEqual(wholeMessage)
        // A call that had to wait for its name is shown after calls that were opened later.
        expect(byId(tool_calls)).toEqual(byId(wholeCalls))
      }),
    )
  })

  test('has the final arguments of each call that the client must run', () => {
    fc.assert(
      fc.property(overlappingTurn, (turn) => {
        const { calls } = hear(encodeAll(turn))
        const heard = Object.fromEntries(calls.map((call) => [call.id, call.arguments]))
        expect(heard).toEqual(finalArguments(turn))
      }),
    )
  })

  test('has no text after the first call', () => {
    fc.assert(
      fc.property(overlappingTurn, (turn) => {
        const deltas = deltasOf(encodeAll(turn))
        const first = deltas.findIndex((delta) => 'tool_calls' in delta)
        const after = first === -1 ? [] : deltas.slice(first)
        expect(after.filter((delta) => 'content' in delta)).toEqual([])
      }),
    )
  })

  test('ends with [DONE], once, and nothing follows it', () => {
    fc.assert(
      fc.property(randomTurn, overlappingTurn, ({ events }, more) => {
        const frames = sseOf([...events, ...more]).split('\n\n')
        expect(frames.slice(-2)).toEqual(['data: [DONE]', ''])
        expect(frames.filter((frame) => frame === 'data: [DONE]')).toHaveLength(1)
      }),
    )
  })
})

test('events in any order never throw', () => {
  fc.assert(
    fc.property(anyPayloads, (payloads) => {
      const frames = encodeAll(eventsOf(payloads))
      const ended = payloads.some(({ type }) => TERMINALS.has(type))
      // Text that was sent and then withdrawn ends the stream early.
      const isWithdrawn = frames.some(
        (frame) => isError(frame) && frame.error.message.includes('withdrawn'),
      )
      if (ended || isWithdrawn) checkWellFormed(frames)
      else expect(frames.filter((frame) => isError(frame) || isFinish(frame))).toEqual([])
    }),
  )
})

test('the generated turns are valid', () => {
  fc.assert(
    fc.property(overlappingTurn, (turn) => {
      expect(turn.map((event) => decodeStreamEvent(event)).filter(({ ok }) => !ok)).toEqual([])
    }),
  )
})

const TERMINALS = new Set(['response_done', 'response_error', 'turn_aborted_by_user'])

function completionOf(turn: readonly StreamEvent[], keep: boolean): ChatCompletion {
  const completion = toChatCompletion(turn, { ...HEAD, keepTextAfterToolCalls: keep })
  if ('error' in completion) throw new Error(completion.error.message)
  return completion
}

function byId(calls: ChatMessage['tool_calls'] = []): ChatMessage['tool_calls'] {
  return calls.toSorted((one, other) => one.id.localeCompare(other.id))
}

function finalArguments(turn: readonly StreamEvent[]): Record<string, string> {
  const calls = turn.flatMap((event) => {
    if (event.type !== 'item_done' || event.payload.final_item.type !== 'function_call') return []
    const { call_id, arguments: text, provider_metadata } = event.payload.final_item
    return isExecutedByProvider(provider_metadata) ? [] : [[call_id, text === '' ? '{}' : text]]
  })
  return Object.fromEntries(calls) as Record<string, string>
}
