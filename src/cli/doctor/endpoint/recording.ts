import { isRecord, parseJsonObject } from '../../../protocol/json.ts'
import { SseDecoder, type SseEvent } from '../../../sse/decode.ts'

/** Bytes as they came out of the socket, and when, counted from the call. */
export interface Read {
  readonly atMs: number
  readonly bytes: Uint8Array
}

/** How a stream came to its end: the server closed it, it broke, or we stopped reading. */
export type Ending = 'closed' | 'broken' | 'late' | 'too long' | 'left open'

/** Everything that a server sent in answer to one call for a stream. */
export interface StreamRecording {
  /** What was asked for, for people. */
  readonly about: string
  readonly asksUsage: boolean
  readonly status: number
  readonly contentType: string
  readonly reads: readonly Read[]
  readonly ending: Ending
}

export interface Chunk {
  readonly json: Readonly<Record<string, unknown>>
  /** Its choices, or none. */
  readonly choices: readonly Readonly<Record<string, unknown>>[]
  readonly atMs: number
}

/** A recording as a client would read it. */
export interface DecodedStream extends StreamRecording {
  /** What came before `[DONE]`. */
  readonly chunks: readonly Chunk[]
  readonly hasDone: boolean
  /** What came after `[DONE]`. */
  readonly rest: readonly string[]
  /** The first data that is no JSON object. */
  readonly unreadable: string | undefined
  /** The names of events, where they have one. */
  readonly names: readonly string[]
  /** Whether it ended in the middle of an event. */
  readonly isCut: boolean
}

const DONE = '[DONE]'

export function decodeStream(recording: StreamRecording): DecodedStream {
  const { events, isCut } = eventsOf(recording)
  const end = events.findIndex(({ data }) => data === DONE)
  const hasDone = end !== -1
  const before = hasDone ? events.slice(0, end) : events
  const parsed = before.map((event) => ({ ...event, json: parseJsonObject(event.data) }))
  return {
    ...recording,
    chunks: parsed.flatMap(({ json, atMs }) =>
      json === undefined ? [] : [{ json, atMs, choices: choicesOf(json) }],
    ),
    hasDone,
    rest: hasDone ? events.slice(end + 1).map(({ data }) => data) : [],
    unreadable: parsed.find(({ json }) => json === undefined)?.data,
    names: events.map(({ event }) => event).filter((name) => name !== ''),
    isCut,
  }
}

interface TimedEvent extends SseEvent {
  readonly atMs: number
}

function eventsOf({ reads }: StreamRecording): { events: TimedEvent[]; isCut: boolean } {
  const decoder = new SseDecoder({ flushOnEnd: true })
  const events: TimedEvent[] = []
  for (const { atMs, bytes } of reads) {
    events.push(...decoder.feed(bytes).map((event) => ({ ...event, atMs })))
  }
  const late = decoder.end()
  const atMs = reads.at(-1)?.atMs ?? 0
  return {
    events: [...events, ...late.map((event) => ({ ...event, atMs }))],
    isCut: late.length > 0,
  }
}

function choicesOf(json: Readonly<Record<string, unknown>>): Record<string, unknown>[] {
  const { choices } = json
  return Array.isArray(choices) ? choices.filter(isRecord) : []
}

/** What a choice of a chunk adds; empty where it has none. */
export function deltaOf(choice: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { delta } = choice
  return isRecord(delta) ? delta : {}
}

/** The finish reasons of a stream, each with the place of its chunk. */
export function finishesOf({ chunks }: Pick<DecodedStream, 'chunks'>) {
  return chunks.flatMap(({ choices }, at) =>
    choices.flatMap(({ finish_reason: reason }) =>
      reason === undefined || reason === null ? [] : [{ reason, at }],
    ),
  )
}

/** The text of a stream, in the parts in which it came. */
export function textsOf({ chunks }: Pick<DecodedStream, 'chunks'>): string[] {
  return chunks.flatMap(({ choices }) =>
    choices.flatMap((choice) => {
      const { content } = deltaOf(choice)
      return typeof content === 'string' && content !== '' ? [content] : []
    }),
  )
}
