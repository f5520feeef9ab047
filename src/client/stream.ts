import { parseHeartbeatAnnouncement } from '../protocol/heartbeat.ts'
import type { SseEvent } from '../sse/decode.ts'
import { ClientError } from './errors.ts'
import { type Feed, restart, take } from './feed.ts'
import type { Report } from './link.ts'
import type { Requests } from './requests.ts'
import { createEventReader } from './sse.ts'

/** One turn or thread of the gateway. */
export interface Source {
  readonly feed: Feed
  /** The path of the stream, and the first parameter. */
  readonly path: string
  /** Runs before every connection. */
  readonly prepare: (signal: AbortSignal, report: Report) => Promise<void>
  /** Whether everything arrived. */
  readonly isOver: () => boolean
}

export type OnFrames = (frames: readonly SseEvent[]) => void

/** Reads a stream from the cursor of its feed. Resolves when everything arrived, and rejects when it is cut. */
export async function readStream(
  send: Requests['send'],
  { feed, path, prepare, isOver }: Source,
  signal: AbortSignal,
  report: Report,
  onFrames: OnFrames,
): Promise<void> {
  const misfit = () => {
    restart(feed)
    return new ClientError('Out of step')
  }
  await prepare(signal, report)
  signal.throwIfAborted()
  onFrames([])
  if (isOver()) return
  const encoding = feed.restarts < 2 ? 'append' : 'snapshot'
  const query = `&encoding=${encoding}&from=${encodeURIComponent(feed.cursor)}`
  const response = await send(path + query, { signal }).catch((error: ClientError) => {
    throw error.code === 'CURSOR_INVALID' && !signal.aborted ? misfit() : error
  })
  // The cursor is past the end of another turn with the same id.
  if (response.status === 204) throw misfit()
  const read = createEventReader((comment) => {
    const pingMs = parseHeartbeatAnnouncement(comment)
    // Before it, this may be the page of a proxy.
    if (pingMs) report({ type: 'opened', pingMs })
  })
  await readBody(response, signal, (chunk) => {
    report({ type: 'heard' })
    const frames = read(chunk)
    if (!frames.every((frame) => take(feed, frame))) throw misfit()
    onFrames(frames)
    return isOver()
  })
  if (!isOver()) throw new ClientError('Ended early')
}

/** Reads a body until `onChunk` returns true. */
export async function readBody(
  { body }: Response,
  signal: AbortSignal | undefined,
  onChunk: (chunk: Uint8Array<ArrayBuffer>) => unknown,
): Promise<void> {
  const reader = body?.getReader()
  for (;;) {
    const { done, value } = (await reader?.read()) ?? {}
    // Meanwhile another request may have replaced this one.
    signal?.throwIfAborted()
    if (done || !value || onChunk(value)) return
  }
}
