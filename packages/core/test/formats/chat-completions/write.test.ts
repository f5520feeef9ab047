import { describe, expect, test } from 'vitest'
import {
  type ChatChunk,
  ChatCompletionsEncoder,
  type ChatDelta,
  type StreamEvent,
} from '../../../src/index.ts'
import {
  delta,
  done,
  event,
  open,
  responseDone,
  responseError,
  start,
  tokens,
  usage,
} from '../../processor/events.ts'
import { chunksOf, deltasOf, encodeAll, HEAD, isError } from './write-support.ts'

const ROLE: ChatDelta = { role: 'assistant', content: '' }

describe('the frame of a stream', () => {
  test('the first chunk has the role and comes with response_start', () => {
    expect(encodeAll([start()])).toEqual([
      {
        id: 'chatcmpl-1',
        object: 'chat.completion.chunk',
        created: 1_700_000_000,
        model: 'model-1',
        choices: [{ index: 0, delta: ROLE, logprobs: null, finish_reason: null }],
      },
    ])
  })

  test('the role comes once, even when the response starts twice', () => {
    expect(deltasOf(encodeAll([start(), start(), delta('a', 'lost')]))).toEqual([ROLE])
  })

  test('without a response_start the role comes before the first text', () => {
    expect(deltasOf(encodeAll([open('a'), delta('a', 'Hi')]))).toEqual([ROLE, { content: 'Hi' }])
  })

  test('without anything the role comes before the error', () => {
    const frames = encodeAll([responseError('BROKEN', 'why')])
    expect(frames.map((frame) => isError(frame))).toEqual([false, true])
    expect(deltasOf(frames)).toEqual([ROLE])
  })

  test('heartbeats and events of later versions add nothing', () => {
    const later = { ...event({ type: 'heartbeat' }), type: 'thought_of_something' }
    const frames = encodeAll([event({ type: 'heartbeat' }), later as unknown as StreamEvent])
    expect(frames).toEqual([])
  })

  test('nothing follows the end, and done is true', () => {
    const encoder = new ChatCompletionsEncoder(HEAD)
    encoder.encode(start())
    expect(encoder.isOver).toBe(false)
    encoder.encode(responseDone())
    expect(encoder.isOver).toBe(true)
    const late = [start(), open('a'), done('a', 'late'), usage(1, 2), responseDone()]
    expect(late.flatMap((each) => encoder.encode(each))).toEqual([])
  })
})

describe('usage', () => {
  const spent = { ...tokens(10, 5), cached_tokens: 4, reasoning_tokens: 2, cache_write_tokens: 1 }
  const billed = {
    prompt_tokens: 10,
    completion_tokens: 5,
    total_tokens: 15,
    prompt_tokens_details: { cached_tokens: 4 },
    completion_tokens_details: { reasoning_tokens: 2 },
  }
  const turn = [start(), done('a', 'Hi'), responseDone({ usage: spent })]

  test('is not sent by default', () => {
    const chunks = chunksOf(encodeAll(turn))
    expect(chunks.filter((chunk) => 'usage' in chunk)).toEqual([])
    expect(chunks.filter(({ choices }) => choices.length === 0)).toEqual([])
  })

  test('comes in a separate chunk after the finish; all other chunks have null', () => {
    expect(outline(chunksOf(encodeAll(turn, { includeUsage: true })))).toEqual([
      { choices: 1, usage: null },
      { choices: 1, usage: null },
      { choices: 1, usage: null },
      { choices: 0, usage: billed },
    ])
  })

  test('falls back to the last usage_update', () => {
    const frames = encodeAll([usage(1, 1), usage(2, 3), responseDone()], { includeUsage: true })
    expect(chunksOf(frames).at(-1)?.usage).toEqual(tokens(2, 3))
  })

  test('is not invented when the provider reports none', () => {
    const chunks = chunksOf(encodeAll([start(), responseDone()], { includeUsage: true }))
    expect(outline(chunks)).toEqual([
      { choices: 1, usage: null },
      { choices: 1, usage: null },
    ])
  })

  test('does not follow an error', () => {
    const frames = encodeAll([start(), usage(1, 1), responseError('BROKEN', 'why')], {
      includeUsage: true,
    })
    expect(frames.map((frame) => isError(frame))).toEqual([false, true])
  })
})

function outline(chunks: readonly ChatChunk[]) {
  return chunks.map(({ choices, usage }) => ({ choices: choices.length, usage }))
}
