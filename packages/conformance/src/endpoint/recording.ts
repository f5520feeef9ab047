import { isRecord, parseJsonObject } from '@turnstream/core/internal/protocol/json'
import { SseDecoder, type SseEvent } from '@turnstream/core/internal/sse/decode'
import { failureReason, type HttpCall, MAX_BYTES, type NoAnswer, send, tooLate } from './http.ts'

/** Bytes as read from the socket, with their time since the request. */
interface Read {
  readonly atMs: number
  readonly bytes: Uint8Array
}

/** How a stream ended: the server closed it, it broke, or we stopped reading. */
type Ending = 'closed' | 'broken' | 'late' | 'too long' | 'left open'

export interface StreamRecording {
  readonly about: string
  readonly asksUsage?: boolean
  readonly status: number
  readonly contentType: string
  readonly reads: readonly Read[]
  readonly ending: Ending
}

export interface StreamCall extends HttpCall {
  readonly about: string
  readonly limitMs: number
  readonly asksUsage?: boolean
  /** Disconnects when this arrives. */
  readonly leavesAt?: RegExp
  /** The last thing that the server sends. `[DONE]` by default. */
  readonly endsAt?: RegExp
}

const CLOSE_LIMIT_MS = 1000

const DONE_SEEN = /^data: ?\[DONE\]$/m
const TAIL_CHARS = 64

export async function recordStream(call: StreamCall): Promise<StreamRecording | NoAnswer> {
  const { about, asksUsage = false, leavesAt, endsAt = DONE_SEEN, limitMs, clock } = call
  const startedAt = clock.now()
  const abort = new AbortController()
  const stopIn = (ms: number, why: Ending) => clock.after(ms, () => abort.abort(why))
  let cancelTimer = stopIn(limitMs, 'late')
  const decoder = new TextDecoder()
  const reads: Read[] = []
  let head: Pick<StreamRecording, 'status' | 'contentType'> | undefined
  let ending: Ending = 'closed'
  let size = 0
  let tail = ''
  try {
    const response = await send(call, abort.signal)
    const { status, headers } = response
    head = { status, contentType: headers.get('content-type') ?? '' }
    for await (const bytes of response.body ?? []) {
      reads.push({ atMs: clock.now() - startedAt, bytes })
      size += bytes.length
      if (size > MAX_BYTES) ending = 'too long'
      if (size > MAX_BYTES) break
      const text = tail + decoder.decode(bytes, { stream: true })
      tail = text.slice(-TAIL_CHARS)
      if (leavesAt?.test(text)) break
      if (!endsAt.test(text)) continue
      cancelTimer()
      cancelTimer = stopIn(CLOSE_LIMIT_MS, 'left open')
    }
  } catch (error) {
    // The reason says why we stopped reading, if it was us.
    ending = (abort.signal.reason as Ending | undefined) ?? 'broken'
    if (head === undefined) {
      return ending === 'late' ? tooLate(limitMs) : { reason: failureReason(error) }
    }
  } finally {
    cancelTimer()
    abort.abort('closed')
  }
  return { about, asksUsage, ...head, reads, ending }
}

export interface SseRecording extends StreamRecording {
  /** The JSON objects before `[DONE]`. */
  readonly events: readonly NamedEvent[]
  readonly hasDone: boolean
  /** Data after `[DONE]`. */
  readonly rest: readonly string[]
  /** The first data that is not a JSON object. */
  readonly unreadable: string | undefined
  readonly names: readonly string[]
  /** Whether it ended in the middle of an event. */
  readonly isCut: boolean
}

export interface NamedEvent {
  /** Empty without a name. */
  readonly name: string
  readonly json: Readonly<Record<string, unknown>>
  readonly atMs: number
}

export function decodeEvents(recording: StreamRecording): SseRecording {
  const { reads } = recording
  const decoder = new SseDecoder({ flushOnEnd: true })
  const complete = reads.flatMap(({ atMs, bytes }) => timed(decoder.feed(bytes), atMs))
  const cut = timed(decoder.end(), reads.at(-1)?.atMs ?? 0)
  const events = [...complete, ...cut]
  const end = events.findIndex(({ data }) => data === '[DONE]')
  const hasDone = end !== -1
  const before = hasDone ? events.slice(0, end) : events
  const parsed = before.map((event) => ({ ...event, json: parseJsonObject(event.data) }))
  return {
    ...recording,
    events: parsed.flatMap(({ event, json, atMs }) =>
      json === undefined ? [] : [{ name: event, json, atMs }],
    ),
    hasDone,
    rest: hasDone ? events.slice(end + 1).map(({ data }) => data) : [],
    unreadable: parsed.find(({ json }) => json === undefined)?.data,
    names: events.map(({ event }) => event).filter((name) => name !== ''),
    isCut: cut.length > 0,
  }
}

function timed(events: readonly SseEvent[], atMs: number) {
  return events.map((event) => ({ ...event, atMs }))
}

export const recordsIn = (list: unknown) => (Array.isArray(list) ? list.filter(isRecord) : [])
