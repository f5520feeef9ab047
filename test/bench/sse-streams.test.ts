import { describe, expect, test } from 'vitest'
import {
  anthropicFrames,
  chunksOf,
  frameByFrame,
  openaiFrames,
  textChunksOf,
} from '../../bench/sse-streams.mjs'
import { readChunks } from '../../packages/core/test/sse/cuts.ts'

describe.each([
  ['OpenAI-like', openaiFrames, ''],
  ['Anthropic-like', anthropicFrames, 'content_block_delta'],
])('the %s load', (_name, framesOf, event) => {
  const frames = framesOf(320)

  test('has one JSON event per frame', () => {
    const { events } = readChunks(frames)
    expect(events).toHaveLength(320)
    for (const each of events) expect(each.event).toBe(event)
    expect(() => events.map(({ data }) => JSON.parse(data) as unknown)).not.toThrow()
  })

  test('is the same however it is split', () => {
    const whole = readChunks(frames)
    expect(readChunks(frameByFrame(frames))).toEqual(whole)
    expect(readChunks(chunksOf(frames, 1000))).toEqual(whole)
    expect(readChunks(textChunksOf(frames, 1000))).toEqual(whole)
    expect(
      chunksOf(frames, 1000)
        .slice(0, -1)
        .every(({ length }) => length === 1000),
    ).toBe(true)
  })

  test('has a character that is not ASCII in one frame of 16', () => {
    const mixed = frameByFrame(frames).filter((bytes) => bytes.some((byte) => byte >= 0x80))
    expect(mixed).toHaveLength(320 / 16)
  })
})
