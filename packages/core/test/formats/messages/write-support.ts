/** Short ways to encode a turn as a message, and to read it with the official client. */

import Anthropic from '@anthropic-ai/sdk'
import { MessagesEncoder, type MessagesEvent, type StreamEvent } from '../../../src/index.ts'

const HEAD = { turnId: 'turn-1', model: 'model-1' }

export function encodeAll(turn: readonly StreamEvent[]): MessagesEvent[] {
  const encoder = new MessagesEncoder(HEAD)
  return turn.flatMap((event) => encoder.encode(event))
}

export function sseOf(turn: readonly StreamEvent[]): string {
  const encoder = new MessagesEncoder(HEAD)
  return turn.map((event) => encoder.encodeSse(event)).join('')
}

/** What a client gets that joins after `at` events. */
export function joinedSse(turn: readonly StreamEvent[], at: number): string {
  const encoder = new MessagesEncoder(HEAD)
  for (const event of turn.slice(0, at)) encoder.encodeSse(event)
  const joined = encoder.joinSse()
  return (
    joined +
    turn
      .slice(at)
      .map((event) => encoder.encodeSse(event))
      .join('')
  )
}

export function messageOf(turn: readonly StreamEvent[]): MessagesEncoder {
  const encoder = new MessagesEncoder(HEAD)
  for (const event of turn) encoder.encode(event)
  return encoder
}

export function streamOf(sse: string) {
  const headers = { 'content-type': 'text/event-stream' }
  const fetch = () => Promise.resolve(new Response(sse, { headers }))
  const client = new Anthropic({ apiKey: 'none', maxRetries: 0, fetch })
  const messages = [{ role: 'user' as const, content: 'Hi' }]
  return client.messages.stream({ model: 'model-1', max_tokens: 100, messages })
}
