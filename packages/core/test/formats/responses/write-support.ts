/** Short ways to encode a turn as a response, and to read it with the official client. */

import OpenAI from 'openai'
import { ResponsesEncoder, type ResponsesEvent, type StreamEvent } from '../../../src/index.ts'

export const HEAD = { turnId: 'turn-1', model: 'model-1', createdAt: 1_700_000_000_000 }

export function encodeAll(turn: readonly StreamEvent[], startingAfter = -1): ResponsesEvent[] {
  const encoder = new ResponsesEncoder({ ...HEAD, startingAfter })
  return turn.flatMap((event) => encoder.encode(event))
}

export function sseOf(turn: readonly StreamEvent[], startingAfter = -1): string {
  const encoder = new ResponsesEncoder({ ...HEAD, startingAfter })
  return turn.map((event) => encoder.encodeSse(event)).join('')
}

export function responseOf(turn: readonly StreamEvent[]) {
  const encoder = new ResponsesEncoder(HEAD)
  for (const event of turn) encoder.encode(event)
  return encoder.response
}

/** The frames of an SSE text, each with its blank line. */
export function framesOf(sse: string): string[] {
  return sse.split(/(?<=\n\n)/)
}

/** The official client, which gets the text as the answer to every request. */
function clientOf(sse: string): OpenAI {
  const headers = { 'content-type': 'text/event-stream' }
  const fetch = () => Promise.resolve(new Response(sse, { headers }))
  return new OpenAI({ apiKey: 'none', maxRetries: 0, fetch })
}

export function streamOf(sse: string) {
  return clientOf(sse).responses.stream({ model: 'model-1', input: 'Hi' })
}
