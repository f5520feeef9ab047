import type { AppendFrame } from '../protocol/append-frame.ts'
import { parseHeartbeatAnnouncement } from '../protocol/heartbeat.ts'
import { isRecord } from '../protocol/json.ts'
import { SSE_EVENTS } from '../protocol/names.ts'
import type { StreamOutput } from '../protocol/stream-output.ts'
import type { SseEvent } from '../sse/decode.ts'
import type { Happening } from './connection.ts'
import { ClientError } from './errors.ts'
import { type Attempt, happeningOf } from './link.ts'
import type { Requests } from './requests.ts'
import { EventReader } from './sse.ts'
import { append, apply, EMPTY_VIEW, type View } from './view.ts'

/** The cursor before the first record. */
const START = '0-0'

const OVER: Happening = { type: 'over' }

/** What arrives of one turn or thread, over any number of connections. */
export class Feed {
  view: View
  /** After a restart the view is incomplete until its first records with a cursor: show the previous one. */
  isHeld = false
  /** Changes when the view starts over. */
  generation = 0
  #cursor = START
  #encoding = 'append'

  constructor(view = EMPTY_VIEW) {
    this.view = view
  }

  /** Whether nothing can be resumed: load, or read from the start. */
  get isAtStart(): boolean {
    return this.#cursor === START
  }

  get query(): string {
    return `?encoding=${this.#encoding}&from=${encodeURIComponent(this.#cursor)}`
  }

  /** Continues after what was loaded. */
  loaded(view: View, cursor: string | undefined): void {
    this.view = view
    this.#cursor = cursor ?? START
    this.isHeld = false
  }

  /** Reads everything again. Appends that do not fit twice are not requested any more. */
  restart(): void {
    if (this.generation > 0) this.#encoding = 'snapshot'
    this.#cursor = START
    this.#discard(EMPTY_VIEW)
  }

  /** Takes a frame. False when it does not fit: then restart. */
  take({ event, data, id }: SseEvent): boolean {
    const view = this.#applied(event, data)
    if (view === undefined) return false
    this.view = view
    if (id !== this.#cursor) this.isHeld = false
    this.#cursor = id
    return true
  }

  #applied(event: string, data: string): View | undefined {
    const value: unknown = JSON.parse(data)
    if (!isRecord(value)) return undefined
    if (event === SSE_EVENTS.append) return append(this.view, value as unknown as AppendFrame)
    if (event === SSE_EVENTS.resync) return this.#resynced(String(value['offset']), value['reason'])
    // Of a later version.
    if (event !== '' || !isOutput(value)) return this.view
    return apply(this.view, value)
  }

  #resynced(offset: string, reason: unknown): View | undefined {
    // On the stream of a thread, cursors are `<turnId>/<offset>`.
    const slash = offset.lastIndexOf('/')
    if (slash < 0) {
      // Loading the newest turns of a thread again is cheaper than reading all of them.
      if (this.#cursor.includes('/')) return undefined
      return this.#discard(EMPTY_VIEW)
    }
    const turns = this.view.turns.filter(({ turnId }) => turnId !== offset.slice(0, slash))
    // Nothing follows in a turn that has expired.
    return reason === 'trimmed' ? { turns } : this.#discard({ turns })
  }

  #discard(view: View): View {
    this.generation += 1
    this.isHeld = true
    this.view = view
    return view
  }
}

function isOutput(value: object): value is StreamOutput {
  const { type, turnId, threadId, itemId, content } = value as Record<string, unknown>
  if (typeof turnId !== 'string' || typeof threadId !== 'string') return false
  if (itemId !== undefined) return typeof itemId === 'string' && typeof content === 'string'
  return type === 'turn_started' || type === 'turn_complete' || type === 'turn_error'
}

export interface FeedSource {
  readonly requests: Requests
  readonly feed: Feed
  /** The path of the stream. */
  readonly path: string
  /** Runs before every connection. */
  readonly prepare: (signal: AbortSignal, heard: () => void) => Promise<void>
  /** Whether everything arrived. */
  readonly isOver: () => boolean
  readonly onFrames: () => void
}

/** Reads a stream from the cursor of a feed until it is cut or over. */
export function feedAttempt(source: FeedSource): Attempt {
  const { feed } = source
  return async (signal, report) => {
    try {
      await source.prepare(signal, () => report({ type: 'heard' }))
      signal.throwIfAborted()
      if (source.isOver()) return OVER
      const response = await source.requests.send(source.path + feed.query, { signal })
      if (response.status !== 204) return await readStream(source, response, report, signal)
      if (source.isOver()) return OVER
      // The cursor is past the end of another turn with the same id.
      return restarted(feed)
    } catch (error) {
      if (signal.aborted) return happeningOf(error)
      // Larger than we accept: it would be again.
      if (error instanceof RangeError) {
        return {
          type: 'refused',
          cause: new ClientError(error.message, { status: 502, cause: error }),
        }
      }
      const isBroken = error instanceof SyntaxError
      const isForeign = error instanceof ClientError && error.code === 'CURSOR_INVALID'
      return isBroken || isForeign ? restarted(feed) : happeningOf(error)
    }
  }
}

function restarted(feed: Feed): Happening {
  feed.restart()
  return { type: 'lost', cause: new ClientError('The stream does not continue what was received') }
}

async function readStream(
  { feed, isOver, onFrames }: FeedSource,
  { body, headers }: Response,
  report: (happening: Happening) => void,
  signal: AbortSignal,
): Promise<Happening> {
  if (body === null || !headers.get('content-type')?.startsWith('text/event-stream')) {
    throw new ClientError('The response is not an event stream')
  }
  report({ type: 'opened' })
  const events = new EventReader((comment) => {
    const pingMs = parseHeartbeatAnnouncement(comment)
    if (pingMs !== undefined) report({ type: 'heard', pingMs })
  })
  const reader = body.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    // Another connection may already write to the feed.
    signal.throwIfAborted()
    if (done) throw new ClientError('The stream ended early')
    report({ type: 'heard' })
    for (const event of events.feed(value)) if (!feed.take(event)) return restarted(feed)
    onFrames()
    if (isOver()) return OVER
  }
}
