import { readFileSync } from 'node:fs'
import { toolsTurn } from '../../../../test/demo-recordings.ts'
import { CassetteDecoder, type CassetteLimits } from '../../src/cassettes/decode.ts'
import {
  type Cassette,
  type CassetteCall,
  encodeCassette,
  type TimedEvent,
  type VendorName,
} from '../../src/index.ts'
import { CASSETTE_FORMAT } from '../../src/protocol/names.ts'

export const HEADER = { format: CASSETTE_FORMAT, version: 1, createdAt: 1000 } as const

export const FIXTURES: Record<string, readonly [VendorName, string, string]> = {
  chat: ['openai-chat', 'test/fixtures/openai-chat/text.sse', '/v1/chat/completions'],
  responses: ['openai-responses', 'test/fixtures/openai-responses/text.sse', '/v1/responses'],
  anthropic: ['anthropic-messages', 'test/fixtures/anthropic-messages/text.sse', '/v1/messages'],
  gemini: [
    'gemini',
    'test/fixtures/gemini/text.sse',
    '/v1beta/models/gemini-3.8-flash:streamGenerateContent',
  ],
}

/** A recorded call whose response arrives in chunks of a size, 10 ms apart. */
export function recordedCall(name: string, number = 1, size = 64): CassetteCall {
  const [vendor, file, path] = FIXTURES[name] ?? FIXTURES['chat']!
  const bytes = readFileSync(file)
  const chunks: { at: number; bytes: Uint8Array }[] = []
  for (let at = 0; at < bytes.length; at += size) {
    const part = new Uint8Array(bytes.subarray(at, at + size))
    chunks.push({ at: 100 + chunks.length * 10, bytes: part })
  }
  const url = `https://vendor.example${path}`
  return {
    number,
    at: 0,
    request: { vendor, method: 'POST', url, headers: {}, body: { model: 'asked' } },
    response: { at: 90, status: 200, headers: { 'content-type': 'text/event-stream' } },
    chunks,
    end: { at: 100 + chunks.length * 10, reason: 'complete' },
  }
}

export function cassetteOf(parts: Partial<Cassette>): Cassette {
  return { header: HEADER, calls: [], events: [], outputs: [], ...parts }
}

/** The turn with three tools, with its prompt. */
export function toolsEvents(): TimedEvent[] {
  return toolsTurn().map((event) => ({ at: event.timestamp, event }))
}

export function encode(cassette: Cassette): string {
  return [...encodeCassette(cassette)].join('')
}

export function decode(text: string, limits?: CassetteLimits): Cassette {
  const decoder = new CassetteDecoder(limits)
  decoder.feed(new TextEncoder().encode(text))
  return decoder.end()
}
