/**
 * What holds of the recorded responses of every vendor.
 *
 * @module-tag slow
 */

import { APIError } from '@anthropic-ai/sdk'
import { describe, expect, test } from 'vitest'
import type { MessagesBlock, MessagesEvent } from '../../../src/index.ts'
import { RECORDED } from '../recorded.ts'
import { differences, readShapes } from '../sdk-shapes.ts'
import { encodeAll, joinedSse, messageOf, sseOf, streamOf } from './write-support.ts'

const SHAPES = readShapes('node_modules/@anthropic-ai/sdk/resources/messages/messages.d.ts')
const BLOCKS: Record<MessagesBlock['type'], string> = {
  text: 'TextBlock',
  thinking: 'ThinkingBlock',
  redacted_thinking: 'RedactedThinkingBlock',
  tool_use: 'ToolUseBlock',
}
/** Members that the SDK declares as required, and the API leaves out. */
const LEFT_OUT = /^no (caller|citations|container|diagnostics|stop_details)$/

describe.each(RECORDED)('$name', ({ events }) => {
  const whole = sseOf(events)

  test('is the same by the fast path, and at every replay', () => {
    const frames = encodeAll(events).map(
      (each) => `event: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`,
    )
    expect(frames.join('')).toBe(whole)
    expect(sseOf(events)).toBe(whole)
  })

  test('has only what the SDK knows', () => {
    for (const event of encodeAll(events)) expect(unknownIn(event), event.type).toEqual([])
  })

  test('has one block open at a time, without holes, and ends once', () => {
    checkOrder(encodeAll(events))
  })

  test('is read by the official client, and gives the message that is not streamed', async () => {
    await checkReading(whole, events)
  })

  test('gives the same message to a client that joins anywhere', async () => {
    for (let at = 0; at <= events.length; at += step(events.length)) {
      await checkReading(joinedSse(events, at), events)
    }
  })
})

/** At most a dozen places. */
function step(length: number): number {
  return Math.max(1, Math.floor(length / 12))
}

async function checkReading(sse: string, events: Parameters<typeof messageOf>[0]): Promise<void> {
  const { message, error } = messageOf(events)
  const reading = streamOf(sse).finalMessage()
  if (error !== undefined) {
    const failure: unknown = await reading.catch((each: unknown) => each)
    expect(failure).toBeInstanceOf(APIError)
    expect(failure).toMatchObject({ error })
    return
  }
  const { content, stop_reason, usage, id, model } = await reading
  const blocks = content.map((block, index) => {
    const ours = message.content[index]
    // The client guesses the rest of arguments that are not an object.
    const isGuess = ours?.type === 'tool_use' && Object.keys(ours.input).length === 0
    return isGuess ? ours : block
  })
  const read = { content: blocks, stop_reason, usage, id, model }
  expect(message).toMatchObject(JSON.parse(JSON.stringify(read)) as object)
}

function unknownIn(event: MessagesEvent): string[] {
  const isUnknown = (name: string) => !LEFT_OUT.test(name)
  switch (event.type) {
    case 'message_start':
      return differences(event.message, SHAPES.get('Message')).filter(isUnknown)
    case 'content_block_start': {
      const { content_block: block } = event
      return differences(block, SHAPES.get(BLOCKS[block.type])).filter(isUnknown)
    }
    case 'content_block_delta': {
      const shape = [...SHAPES.values()].find(({ type }) => type === event.delta.type)
      return differences(event.delta, shape)
    }
    case 'message_delta': {
      const { known } = SHAPES.get('MessageDeltaUsage') ?? { known: new Set<string>() }
      return Object.keys(event.usage).filter((name) => !known.has(name))
    }
    default:
      return []
  }
}

/** The order that the API promises. */
function checkOrder(events: readonly MessagesEvent[]): void {
  let open: { index: number; type: string } | undefined
  let started = 0
  for (const event of events) {
    if (event.type === 'content_block_start') {
      expect(open).toBeUndefined()
      expect(event.index).toBe(started)
      started += 1
      open = { index: event.index, type: event.content_block.type }
    } else if (event.type === 'content_block_delta') {
      expect(event.index).toBe(open?.index)
      expect(DELTAS[open?.type ?? '']).toContain(event.delta.type)
    } else if (event.type === 'content_block_stop') {
      expect(event.index).toBe(open?.index)
      open = undefined
    } else expect(open).toBeUndefined()
  }
  const types = events.map(({ type }) => type)
  expect(types.filter((type) => type === 'message_start').length).toBeLessThan(2)
  const last = types.at(-1)
  expect(last === 'message_stop' || last === 'error').toBe(true)
  const isEnd = (type: string) => type === 'message_stop' || type === 'error'
  expect(types.filter(isEnd)).toHaveLength(1)
  checkStopReason(events)
}

/** `tool_use` without a call makes agents loop. */
function checkStopReason(events: readonly MessagesEvent[]): void {
  const hasCall = events.some(
    (event) => event.type === 'content_block_start' && event.content_block.type === 'tool_use',
  )
  const end = events.find((event) => event.type === 'message_delta')
  if (end?.type !== 'message_delta') return
  const { stop_reason } = end.delta
  if (stop_reason === 'tool_use') expect(hasCall).toBe(true)
  else if (hasCall) expect(stop_reason).toBe('max_tokens')
}

const DELTAS: Record<string, readonly string[]> = {
  text: ['text_delta'],
  thinking: ['thinking_delta', 'signature_delta'],
  tool_use: ['input_json_delta'],
  redacted_thinking: [],
}
