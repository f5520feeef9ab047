/** Short ways to encode a turn, and to read what a client would make of it. */

import {
  type ChatChunk,
  ChatCompletionsEncoder,
  type ChatCompletionsOptions,
  type ChatDelta,
  type ChatError,
  type ChatFrame,
  type ChatToolCallDelta,
  type StreamEvent,
} from '../../../src/index.ts'
import { open } from '../../processor/events.ts'

export const HEAD = { id: 'chatcmpl-1', model: 'model-1', created: 1_700_000_000 }

type Extra = Omit<ChatCompletionsOptions, keyof typeof HEAD>

export function encodeAll(events: readonly StreamEvent[], extra: Extra = {}): ChatFrame[] {
  const encoder = new ChatCompletionsEncoder({ ...HEAD, ...extra })
  return events.flatMap((event) => encoder.encode(event))
}

export function sseOf(events: readonly StreamEvent[], extra: Extra = {}): string {
  const encoder = new ChatCompletionsEncoder({ ...HEAD, ...extra })
  return events.map((event) => encoder.encodeSse(event)).join('')
}

/** A call whose name and id are known from the start. */
export function openCall(item_id: string, call_id: string, name = 'read_file'): StreamEvent {
  return open(item_id, { item_type: 'function_call', call_id, name })
}

/** The delta that opens a call, and the one that adds to its arguments. */
export function opened(index: number, id: string, name = 'read_file'): ChatDelta {
  return { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }
}

export function fragment(index: number, text: string): ChatDelta {
  return { tool_calls: [{ index, function: { arguments: text } }] }
}

export function isError(frame: ChatFrame): frame is ChatError {
  return 'error' in frame
}

export function chunksOf(frames: readonly ChatFrame[]): ChatChunk[] {
  return frames.flatMap((frame) => (isError(frame) ? [] : [frame]))
}

export function deltasOf(frames: readonly ChatFrame[]): ChatDelta[] {
  return chunksOf(frames).flatMap(({ choices }) => choices.map(({ delta }) => delta))
}

/** What a client has when it has read all frames. Throws where a strict client would. */
export interface Heard {
  content: string
  reasoning: string
  refusal: string
  calls: { id: string; name: string; arguments: string }[]
  finish: string | undefined
  usage: ChatChunk['usage']
  error: ChatError['error'] | undefined
}

export function hear(frames: readonly ChatFrame[]): Heard {
  const heard: Heard = {
    content: '',
    reasoning: '',
    refusal: '',
    calls: [],
    finish: undefined,
    usage: undefined,
    error: undefined,
  }
  for (const frame of frames) {
    if (isError(frame)) heard.error = frame.error
    else hearChunk(heard, frame)
  }
  return heard
}

function hearChunk(heard: Heard, chunk: ChatChunk): void {
  if (chunk.usage) heard.usage = chunk.usage
  for (const { delta, finish_reason } of chunk.choices) {
    if ('tool_calls' in delta) hearCall(heard.calls, delta.tool_calls[0])
    else if (!('function_call' in delta)) {
      const text: { content?: string; reasoning_content?: string; refusal?: string } = delta
      heard.content += text.content ?? ''
      heard.reasoning += text.reasoning_content ?? ''
      heard.refusal += text.refusal ?? ''
    }
    if (finish_reason !== null) heard.finish = finish_reason
  }
}

function hearCall(calls: Heard['calls'], delta: ChatToolCallDelta): void {
  if ('custom' in delta) throw new Error('the call of a tool that is not custom')
  if ('id' in delta) {
    if (delta.index !== calls.length) throw new Error(`call ${delta.index} opened out of turn`)
    const { name, arguments: text } = delta.function
    calls.push({ id: delta.id, name, arguments: text })
    return
  }
  const call = calls[delta.index]
  if (call === undefined) throw new Error(`a fragment for call ${delta.index}, which is not open`)
  call.arguments += delta.function.arguments
}
