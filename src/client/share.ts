import { LONG_MS } from './connection.ts'
import { ClientError } from './errors.ts'
import { type Feed, START, take } from './feed.ts'
import type { Report } from './link.ts'
import type { Share, SharedStream } from './live.ts'
import type { Frame } from './sse.ts'
import type { OnFrames } from './stream.ts'
import { apply, findTurn, outputsOf } from './view.ts'

/** What is used of the browser's `navigator.locks`. */
export interface Locks {
  request(
    name: string,
    options: { readonly signal: AbortSignal },
    callback: () => Promise<void> | undefined,
  ): Promise<unknown>
}

export interface ShareOptions {
  /**
   * Who is signed in: pages with the same key share. Default: the client's token. Needed when every page has a token of its
   * own, or when cookies authenticate.
   */
  readonly key?: string
  /** Default: those of the browser. */
  readonly locks?: Locks | undefined
}

type State = Omit<Feed, 'restarts'>

/** What the page with the connection sends to the others. */
interface Message {
  /** Everything so far, for a page that asked. */
  readonly state?: State
  readonly pingMs?: number | undefined
  /** What arrived, and the cursor before it. A heartbeat has no frames. */
  readonly frames?: readonly Frame[]
  readonly from?: string
}

/** What a page sends that has missed something. */
const ASK = 'ask'

/** A page that has the connection and does not answer for so long is frozen. */
const PATIENCE_MS = 3000

/**
 * Lets all pages of a browser use one connection per turn or thread. The page that holds a Web Lock has the connection, and
 * sends what arrives to the others. When it is closed, another page continues from its own cursor. Without Web Locks, or
 * without an answer, a page uses a connection of its own.
 *
 * @example
 * const client = createClient({ baseUrl, token, share: shareConnections() })
 */
export function shareConnections(options: ShareOptions = {}): Share {
  const { key, locks = globalThis.navigator?.locks } = options
  return (stream) => async (signal, report) => {
    if (!locks || typeof BroadcastChannel !== 'function') return stream.connect(signal, report)
    const name = await nameOf(stream, key)
    signal.throwIfAborted()
    const channel = new BroadcastChannel(name)
    try {
      await shareStream({ stream, locks, channel, signal, report })
    } finally {
      channel.close()
    }
  }
}

interface Sharing {
  readonly stream: SharedStream
  readonly locks: Locks
  readonly channel: BroadcastChannel
  readonly signal: AbortSignal
  readonly report: Report
}

/** Follows the page with the connection, until this page gets the lock or nobody answers: then it reads the stream. */
function shareStream({ stream, locks, channel, signal, report }: Sharing): Promise<void> {
  const { feed } = stream
  const { clock } = stream.context
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- not a window
  const post = (message: Message | typeof ASK) => channel.postMessage(message)
  let role: 'follower' | 'leader' | 'alone' = 'follower'
  /** Whether frames continue what this page has. */
  let isJoined = false
  let pingMs = LONG_MS
  let heardAt = clock.now()
  let stopWaiting: (() => void) | undefined

  const note: Report = (happening, fact) => {
    pingMs = fact?.pingMs ?? pingMs
    heardAt = clock.now()
    report(happening, fact)
  }

  const ended = new Promise<void>((resolve, reject) => {
    const read = (as: 'leader' | 'alone') => {
      role = as
      stopWaiting?.()
      let from = feed.cursor
      const tell: OnFrames = (frames) => {
        if (as === 'leader') post({ frames, from })
        from = feed.cursor
      }
      stream.connect(signal, note, tell).then(resolve, reject)
    }

    const follow = (message: Message) => {
      stopWaiting?.()
      report('heard')
      const { state, frames } = message
      if (state) {
        if (!isJoined || state.cursor !== feed.cursor) adopt(feed, state)
        isJoined = true
      } else if (!frames) return
      else if (!isJoined || message.from !== feed.cursor) return post(ASK)
      else {
        try {
          for (const frame of frames) take(feed, frame)
        } catch (error) {
          return reject(error)
        }
      }
      report('opened', { pingMs: message.pingMs })
      stream.changed()
      if (stream.isOver?.()) resolve()
    }

    channel.addEventListener('message', ({ data }: MessageEvent<Message | typeof ASK>) => {
      if (data !== ASK) {
        // Meanwhile another attempt may take frames.
        if (role === 'follower' && !signal.aborted) follow(data)
      } else if (role === 'leader') {
        // Nobody watches the connection of a hidden page. The page that asks gets the lock.
        if (clock.now() - heardAt >= 2 * pingMs) {
          return report('lost', { cause: new ClientError('Timed out') })
        }
        // Without anything yet, at least it answers.
        post(feed.cursor === START ? {} : { state: stateOf(feed), pingMs })
      }
    })
    stopWaiting = clock.after(PATIENCE_MS, () => read('alone'))
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

/** What a page needs to join. Turns that are not stored yet stay with their page, which alone learns of a refusal. */
function stateOf({ view, cursor, older, isHeld }: Feed): State {
  return { view: { turns: view.turns.filter(({ started }) => started) }, cursor, older, isHeld }
}

/** Replaces what a page has by what another one has, except for what is newer or only submitted here. */
function adopt(feed: Feed, { view, cursor, older, isHeld }: State): void {
  const known = feed.view.turns.filter(({ turnId, started }) => !started || findTurn(view, turnId))
  feed.view = known.flatMap(outputsOf).reduce(apply, view)
  feed.cursor = cursor
  feed.older = older
  feed.isHeld = isHeld
}

/** Pages of another user, of another gateway or with another version of these messages have nothing in common. */
async function nameOf({ context, path }: SharedStream, key?: string): Promise<string> {
  const credential = new TextEncoder().encode(key ?? (await context.token()) ?? '')
  const hash = new Uint32Array(await crypto.subtle.digest('SHA-256', credential)).join('-')
  return `turnstream/1 ${context.baseUrl}${path}${context.query} ${hash}`
}
