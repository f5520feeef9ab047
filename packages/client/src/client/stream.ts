import { parseHeartbeatAnnouncement } from '@turnstream/core/internal/protocol/heartbeat'
import { ClientError } from './errors.ts'
import { applyFrame, type Feed, restart } from './feed.ts'
import type { Report } from './link.ts'
import type { Context } from './live.ts'
import { path } from './paths.ts'
import { createFrameReader, type Frame } from './sse.ts'

/** One turn or thread of the gateway. */
export interface Source {
  readonly feed: Feed
  readonly path: string
  readonly threadId?: string
  /** Runs before every connection. */
  readonly prepare: (signal: AbortSignal, report: Report) => Promise<void>
  /** Whether everything arrived. Without it, it ends when it is deleted. */
  readonly isOver?: () => boolean
}

export type OnFrames = (frames: readonly Frame[]) => void

/** Reads a stream from the cursor of its feed. Resolves when everything arrived, and rejects when it is cut. */
export const readStream = async (
  { send, query, page }: Context,
  source: Source,
  signal: AbortSignal,
  report: Report,
  onFrames: OnFrames,
): Promise<void> => {
  const { feed, prepare, isOver } = source
  await prepare(signal, report)
  signal.throwIfAborted()
  onFrames([])
  if (isOver?.()) return
  if (!isOver && page.isHidden()) return report('hidden')
  const from = (feed.restarts < 2 ? '&encoding=append' : '') + path`&from=${feed.cursor}`
  const response = await send(source.path + query + from, { signal }).catch(
    (error: ClientError) => {
      signal.throwIfAborted()
      throw error.code === 'CURSOR_INVALID' ? restart(feed) : error
    },
  )
  // The cursor is past the end of another turn with the same id.
  if (response.status === 204) restart(feed)
  const readFrames = createFrameReader()
  await readText(response, signal, report, (text) => {
    const frames = readFrames(text)
    for (const frame of frames) {
      const pingMs = parseHeartbeatAnnouncement(frame[''])
      // Before it, this may be the page of a proxy.
      if (pingMs) report('opened', { pingMs })
      applyFrame(feed, frame)
    }
    onFrames(frames)
    return isOver?.()
  })
  if (!isOver?.()) throw new ClientError('Ended early')
}

/** Reads a body until `onText` returns true. It may be large and the line slow: what arrives is reported. */
export const readText = async (
  { body }: Response,
  signal: AbortSignal,
  report: Report,
  onText: (text: string) => unknown,
): Promise<void> => {
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
