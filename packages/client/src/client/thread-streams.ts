import { parseHeartbeatAnnouncement } from '@turnstream/core/internal/protocol/heartbeat'
import { ClientError, toClientError } from './errors.ts'
import { meaningOf } from './link.ts'
import type { Context } from './live.ts'
import { path } from './paths.ts'
import { createFrameReader, type Frame } from './sse.ts'
import { readText } from './stream.ts'

/** How long the page that has the connection collects what others want, before it sends a request for all. */
const COLLECT_MS = 20

/** What one stream carries: as many threads as the gateway allows, in a URL that every proxy takes. */
const MAX_THREADS = 32
const MAX_QUERY = 6000

/** What a page sends that reads a thread: where to continue or, with an empty cursor, that it has left. */
export interface Want {
  readonly reader: string
  readonly threadId: string
  readonly cursor: string
}

/** What the page with the connection sends. Without anything else, it answers a want. */
export interface Message {
  /** When the page got the connection. Messages of the page before may arrive later than those of this one. */
  readonly term: number
  /** The page does not know what the others read: they have to tell. */
  readonly isAsking?: true
  /** Where each thread continues, on an open stream. */
  readonly cursors?: ReadonlyMap<string, string>
  /** What arrived, of one thread after its cursor or for all. A thread without a frame needs a connection of its own. */
  readonly frame?: Frame
  readonly threadId?: string
  readonly from?: string
  /** Why there is no stream. */
  readonly error?: Pick<ClientError, 'message' | 'code' | 'status' | 'retryAfterMs'>
}

export const postTo = (channel: BroadcastChannel, message: object | string): void => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- not a window
  channel.postMessage(message)
}

/** Reads all threads that pages want, and sends them what arrives. Returns a function that stops. */
export const serveThreads = (name: string, context: Context, term: number): (() => void) => {
  // Not that of a reader, which would not get what its own page sends.
  const channel = new BroadcastChannel(name)
  const wants = new Map<string, Want>()
  const post = (message: Omit<Message, 'term'>) => postTo(channel, { term, ...message })
  let request: AbortController | undefined
  let isOpen = false
  let cancelTimer: (() => void) | undefined

  const stop = () => {
    isOpen = false
    request?.abort()
    cancelTimer?.()
  }

  const restart = () => {
    stop()
    cancelTimer = context.clock.after(COLLECT_MS, () => {
      request = new AbortController()
      if (wants.size) void read(request.signal)
    })
  }

  const read = async (signal: AbortSignal) => {
    const threads = toQuery(wants, (threadId) => {
      wants.delete(threadId)
      post({ threadId })
    })
    try {
      await readThreads(context, threads, signal, pass)
    } catch (thrown) {
      if (signal.aborted) return
      const { message, code, status, retryAfterMs } = toClientError(thrown)
      if (meaningOf(status) === 'lost') {
        post({ error: { message, code, status, retryAfterMs } })
      } else {
        // Only requests of their own tell which thread is refused, and why.
        for (const threadId of wants.keys()) post({ threadId })
      }
      wants.clear()
    }
  }

  const pass = (frame: Frame) => {
    if (!frame.data) {
      isOpen ||= !!parseHeartbeatAnnouncement(frame[''])
      const cursors = new Map(Array.from(wants, ([threadId, { cursor }]) => [threadId, cursor]))
      return post({ frame, cursors })
    }
    const { threadId, turnId } = JSON.parse(frame.data)
    const known = wants.get(threadId)
    if (!known) return
    const { cursor: from } = known
    const id = cursorOf(frame, turnId) ?? from
    wants.set(threadId, { ...known, cursor: id })
    post({ threadId, from, frame: { ...frame, id } })
  }

  channel.addEventListener('message', ({ data }: MessageEvent<Want & Partial<Message>>) => {
    const { term: isMessage, reader, threadId, cursor } = data
    if (isMessage) return
    const known = wants.get(threadId)
    if (cursor) {
      wants.set(threadId, { reader, threadId, cursor })
      // The page knows that it is heard.
      post({})
      if (isOpen || known?.cursor !== cursor) restart()
    } else if (known?.reader === reader) {
      wants.delete(threadId)
      restart()
      // Another page may read it: the messages of two pages have no order.
      post({ isAsking: true })
    }
  })
  post({ isAsking: true })
  return () => {
    stop()
    channel.close()
  }
}

/** Without an id of its own, a frame has that of the frame before, maybe of another thread. */
const cursorOf = ({ id }: Frame, turnId: string): string | undefined =>
  id.startsWith(`${turnId}/`) ? id : undefined

/** Returns the parameters of as many threads as fit. */
const toQuery = (
  wants: ReadonlyMap<string, Want>,
  leaveOut: (threadId: string) => void,
): string => {
  let query = ''
  let count = 0
  for (const { threadId, cursor } of wants.values()) {
    const next = path`&threads=${threadId}&cursors=${cursor}`
    count += 1
    if (count > MAX_THREADS || query.length + next.length > MAX_QUERY) leaveOut(threadId)
    else query += next
  }
  return query
}

/** Reads one stream of threads. It has no end, so it throws. */
const readThreads = async (
  { send, query }: Context,
  threads: string,
  signal: AbortSignal,
  pass: (frame: Frame) => void,
): Promise<void> => {
  const settings = query.slice(query.indexOf('?'))
  const url = `/xapi/streams${settings}&encoding=append${threads}`
  const response = await send(url, { signal })
  const readFrames = createFrameReader()
  const onText = (text: string) => {
    for (const frame of readFrames(text)) pass(frame)
  }
  await readText(response, signal, () => {}, onText)
  throw new ClientError('Ended early')
}
