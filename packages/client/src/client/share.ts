import { LONG_MS } from './connection.ts'
import { ClientError } from './errors.ts'
import { applyFrame, type Feed, replaceNewest, START } from './feed.ts'
import type { Report } from './link.ts'
import type { Context, Share, SharedStream } from './live.ts'
import { type Locks, multiplex, PATIENCE_MS } from './multiplex.ts'
import type { Frame } from './sse.ts'
import { type OnFrames, readStream } from './stream.ts'
import { postTo } from './thread-streams.ts'
import { apply, findTurn, outputsOf } from './view.ts'

export interface ShareOptions {
  /**
   * Who is signed in: pages with the same key share. Default: the client's token. Needed when every page has a token of its
   * own, or when cookies authenticate.
   */
  readonly key?: string
  /** Default: those of the browser. */
  readonly locks?: Locks | undefined
}

type State = Omit<Feed, 'restarts' | 'rebuilt'>

/** What the page with the connection sends to the others. */
interface Message {
  /** When the page got the connection. Messages of the page before may arrive later than those of this one. */
  readonly term: number
  /** Everything so far, for a page that asked. */
  readonly state?: State
  readonly pingMs?: number | undefined
  /** What arrived, and the cursor before it. A heartbeat has no frames. */
  readonly frames?: readonly Frame[]
  readonly from?: string
}

/** What a page sends that has missed something. */
const ASK = 'ask'

/**
 * Lets all pages of a browser use one connection per turn, and one for all threads. The page that holds a Web Lock has the
 * connection, and sends what arrives to the others. When it is closed, another page continues from its own cursor. Without
 * Web Locks, or without an answer, a page uses a connection of its own.
 *
 * @example
 * const client = createClient({ baseUrl, token, share: shareConnections() })
 */
export function shareConnections(options: ShareOptions = {}): Share {
  const { key, locks = globalThis.navigator?.locks } = options
  return (stream) => async (signal, report) => {
    const { context, feed, path, threadId } = stream
    if (!locks || typeof BroadcastChannel !== 'function') {
      return readStream(context, stream, signal, report, stream.changed)
    }
    const toName = await namesOf(context, key)
    signal.throwIfAborted()
    const channel = new BroadcastChannel(toName(path))
    const name = toName('/xapi/streams')
    const isAppending = feed.restarts < 2
    const send =
      threadId && isAppending ? multiplex({ name, locks, context, feed, threadId }) : context.send
    try {
      await shareStream({ stream, locks, channel, send, signal, report })
    } finally {
      channel.close()
    }
  }
}

interface Sharing {
  readonly stream: SharedStream
  readonly locks: Locks
  readonly channel: BroadcastChannel
  /** Sends the request of the page with the connection. */
  readonly send: Context['send']
  readonly signal: AbortSignal
  readonly report: Report
}

/** Follows the page with the connection, until this page gets the lock or nobody answers: then it reads the stream. */
function shareStream({ stream, locks, channel, send, signal, report }: Sharing): Promise<void> {
  const { feed, context } = stream
  const post = (message: Message | typeof ASK) => postTo(channel, message)
  /** The newest that is known. */
  let term = 0
  let role: 'follower' | 'leader' | 'alone' = 'follower'
  /** Whether frames continue what this page has. */
  let isJoined = false
  let pingMs = LONG_MS
  let heardAt = context.clock.now()
  let stopWaiting: (() => void) | undefined

  const note: Report = (event, data) => {
    pingMs = data?.pingMs ?? pingMs
    heardAt = context.clock.now()
    report(event, data)
  }

  const ended = new Promise<void>((resolve, reject) => {
    const read = (as: 'leader' | 'alone') => {
      role = as
      term = Math.max(term + 1, context.clock.now())
      stopWaiting?.()
      let from = feed.cursor
      const tell: OnFrames = (frames) => {
        stream.changed()
        if (as === 'leader') post({ term, frames, from })
        from = feed.cursor
      }
      const deps = as === 'leader' ? { ...context, send } : context
      readStream(deps, stream, signal, note, tell).then(resolve, reject)
    }

    const follow = ({ state, frames, ...message }: Message) => {
      if (message.term < term) return
      term = message.term
      stopWaiting?.()
      report('heard')
      if (state) {
        if (!isJoined || state.cursor !== feed.cursor) adopt(feed, state)
        isJoined = true
      } else if (!frames) return
      else if (!isJoined || message.from !== feed.cursor) return post(ASK)
      else for (const frame of frames) applyFrame(feed, frame)
      report('opened', { pingMs: message.pingMs })
      stream.changed()
      if (stream.isOver?.()) resolve()
    }

    channel.addEventListener('message', ({ data }: MessageEvent<Message | typeof ASK>) => {
      if (data !== ASK) {
        // Meanwhile another attempt may take frames.
        if (role !== 'follower' || signal.aborted) return
        try {
          follow(data)
        } catch (error) {
          reject(error)
        }
      } else if (role === 'leader') {
        // Nobody watches the connection of a hidden page. The page that asks gets the lock.
        if (context.clock.now() - heardAt >= 2 * pingMs) {
          return report('lost', { cause: new ClientError('Timed out') })
        }
        post(answerTo(feed, { term, pingMs }))
      }
    })
    stopWaiting = context.clock.after(PATIENCE_MS, () => read('alone'))
    signal.addEventListener('abort', reject)
    post(ASK)
    locks
      .request(channel.name, { signal }, () => {
        if (role === 'alone') return undefined
        read('leader')
        return ended
      })
      // Sandboxed frames have locks that they may not use.
      .catch((error) => (role === 'follower' && !signal.aborted ? read('alone') : reject(error)))
  })
  return ended.finally(() => stopWaiting?.())
}

/**
 * Answers a page that asks, also without anything to join yet. Turns that are not stored yet stay with their page, which
 * alone learns of a refusal.
 */
function answerTo({ view, cursor, older }: Feed, message: Message): Message {
  if (cursor === START) return message
  const turns = view.turns.filter(({ started }) => started)
  return { ...message, state: { view: { turns }, cursor, older } }
}

/** Takes what another page has, except for what is newer or only submitted here. */
function adopt(feed: Feed, { view, cursor, older }: State): void {
  const known = feed.view.turns.filter(({ turnId }) => findTurn(view, turnId))
  replaceNewest(feed, known.flatMap(outputsOf).reduce(apply, view), older)
  feed.cursor = cursor
}

/** Returns how locks and channels are named: by user, by gateway, and by the version of these messages. */
async function namesOf({ baseUrl, query, token }: Context, key?: string) {
  const credential = new TextEncoder().encode(key ?? (await token()) ?? '')
  const hash = new Uint32Array(await crypto.subtle.digest('SHA-256', credential)).join('-')
  return (path: string) => `turnstream/2 ${baseUrl}${path}${query} ${hash}`
}
