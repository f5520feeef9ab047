import { parseHeartbeatAnnouncement } from '../protocol/heartbeat.ts'
import { ClientError } from './errors.ts'
import { type Feed, restart, take } from './feed.ts'
import type { Report } from './link.ts'
import { path } from './paths.ts'
import type { Requests } from './requests.ts'
import { createFrameReader, type Frame } from './sse.ts'

/** One turn or thread of the gateway. */
export interface Source {
  readonly feed: Feed
  /** The path of the stream, and the first parameter. */
  readonly path: string
  /** Runs before every connection. */
  readonly prepare: (signal: AbortSignal, report: Report) => Promise<void>
  /** Whether everything arrived. Without it, it ends when it is deleted. */
  readonly isOver?: () => boolean
}

export type OnFrames = (frames: readonly Frame[]) => void

/** Reads a stream from the cursor of its feed. Resolves when everything arrived, and rejects when it is cut. */
export async function readStream(
  send: Requests['send'],
  source: Source,
  signal: AbortSignal,
  report: Report,
  onFrames: OnFrames,
): Promise<void> {
  const { feed, prepare, isOver } = source
  const misfit = () => {
    restart(feed)
    return new ClientError('Out of step')
  }
  await prepare(signal, report)
  signal.throwIfAborted()
  onFrames([])
  if (isOver?.()) return
  const query = (feed.restarts < 2 ? '&encoding=append' : '') + path`&from=${feed.cursor}`
  const response = await send(source.path + query, { signal }).catch((error: ClientError) => {
    signal.throwIfAborted()
    throw error.code === 'CURSOR_INVALID' ? misfit() : error
  })
  // The cursor is past the end of another turn with the same id.
  if (response.status === 204) throw misfit()
  const read = createFrameReader()
  await readText(response, signal, report, (text) => {
    const frames = read(text)
    for (const frame of frames) {
      const pingMs = parseHeartbeatAnnouncement(frame[''])
      // Before it, this may be the page of a proxy.
      if (pingMs) report('opened', { pingMs })
      if (!take(feed, frame)) throw misfit()
    }
    onFrames(frames)
    return isOver?.()
  })
  if (!isOver?.()) throw new ClientError('Ended early')
}

/** Reads a body until `onText` returns true. It may be large and the line slow: what arrives is reported. */
export async function readText(
  { body }: Response,
  signal: AbortSignal,
  report: Report,
  onText: (text: string) => unknown,
): Promise<void> {
  const utf8 = new TextDecoder()
  const reader = body?.getReader()
  for (;;) {
    const chunk = await reader?.read()
    // Meanwhile another request may have replaced this one.
    signal.throwIfAborted()
    if (!chunk?.value) return
    report('heard')
    if (onText(utf8.decode(chunk.value, { stream: true }))) return
  }
}
