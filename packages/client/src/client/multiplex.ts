import { GONE_EVENT } from '@turnstream/core/internal/protocol/names'
import { ClientError } from './errors.ts'
import type { Feed } from './feed.ts'
import type { Context } from './live.ts'
import type { Requests } from './requests.ts'
import type { Frame } from './sse.ts'
import { newId } from './submit.ts'
import { type Message, postTo, serveThreads, type Want } from './thread-streams.ts'

/** What is used of the browser's `navigator.locks`. */
export interface Locks {
  request(
    name: string,
    options: { readonly signal: AbortSignal },
    callback: () => Promise<void> | undefined,
  ): Promise<unknown>
}

/** A page that has the connection and does not answer for so long is frozen. */
export const PATIENCE_MS = 3000

export interface Multiplexing {
  /** Of the lock and the channel. */
  readonly name: string
  readonly locks: Locks
  readonly context: Context
  readonly feed: Feed
  readonly threadId: string
}

/**
 * Returns a function that answers the request for the stream of a thread from the one connection of all pages. The page that
 * holds a Web Lock has the connection. Where that is not possible, the request is sent.
 */
export const multiplex =
  ({ name, locks, context, feed, threadId }: Multiplexing): Requests['send'] =>
  (url, init = {}) =>
    new Promise((resolve, reject) => {
      const reader = newId()
      const channel = new BroadcastChannel(name)
      const end = new AbortController()
      let { cursor } = feed
      let term = 0
      /** Whether frames continue what was read. */
      let isJoined = false
      let isAnswered = false

      const want = (from: string) => {
        isJoined = false
        const message: Want = { reader, threadId, cursor: from }
        postTo(channel, message)
      }

      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          const follow = (message: Message) => {
            // Wants of others have no term.
            if (!(message.term >= term)) return
            const { isAsking, cursors, frame, error } = message
            term = message.term
            stopWaiting()
            if (isAsking) return want(cursor)
            if (error) return leave(new ClientError(error.message, error))
            if (cursors) {
              isJoined = cursors.get(threadId) === cursor
              if (!isJoined) return want(cursor)
              isAnswered = true
              resolve(response)
            }
            if (message.threadId === threadId) {
              if (!frame) return leave()
              if (frame.event === GONE_EVENT) return leave(new ClientError('Unknown thread', GONE))
              if (!isJoined) return
              if (message.from !== cursor) return want(cursor)
              cursor = frame.id
            } else if (message.threadId || !isJoined) return
            controller.enqueue(encode(frame))
          }

          /** Without a cause, the thread has a connection of its own from now on. */
          const leave = (cause?: ClientError) => {
            if (end.signal.aborted) return
            end.abort()
            stopWaiting()
            want('')
            channel.close()
            if (!cause && !isAnswered) return resolve(context.send(url, init))
            reject(cause)
            controller.error(cause)
          }

          const stopWaiting = context.clock.after(PATIENCE_MS, leave)
          channel.addEventListener('message', ({ data }) => end.signal.aborted || follow(data))
          init.signal?.addEventListener('abort', () => leave(new ClientError('Cancelled')))
          want(cursor)
          locks
            .request(name, end, () => {
              const stop = serveThreads(name, context, Math.max(term + 1, context.clock.now()))
              return new Promise<void>((resolve) => {
                end.signal.addEventListener('abort', () => {
                  stop()
                  resolve()
                })
              })
            })
            // Sandboxed frames have locks that they may not use.
            .catch(() => leave())
        },
      })
      const response = new Response(body)
    })

const GONE = { code: 'THREAD_UNKNOWN', status: 404 }

const encode = (frame: Frame = { id: '' }): Uint8Array =>
  new TextEncoder().encode(
    `${Object.entries(frame)
      .map(([name, value]) => `${name}: ${value}\n`)
      .join('')}\n`,
  )
