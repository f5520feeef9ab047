import type { StreamOutput } from '@turnstream/core/internal/protocol/stream-output'
import type { ConnectionState } from './connection.ts'
import { ClientError } from './errors.ts'
import { addSubmitted, createFeed, replaceNewest, START } from './feed.ts'
import { type Context, createLive, type Live, type OpenLive } from './live.ts'
import { path } from './paths.ts'
import { readText } from './stream.ts'
import type { OpenTurn } from './turn.ts'
import { apply, EMPTY_VIEW, prepend, type TurnView, type View } from './view.ts'

export interface ThreadState {
  /** Oldest first, from the oldest that was loaded, with those submitted here that the gateway has not sent yet. */
  readonly turns: readonly TurnView[]
  /** Whether `loadOlder` has more. */
  readonly hasOlder: boolean
  readonly connection: ConnectionState
}

/**
 * A thread of the gateway: its newest turns, then everything new, over one connection. It ends when it is deleted.
 *
 * @example
 * const { subscribe, getSnapshot } = client.thread(threadId)
 * subscribe(() => render(getSnapshot().turns))
 */
export interface Thread extends Live<ThreadState> {
  readonly threadId: string
  /** Loads the turns before those that are shown. */
  readonly loadOlder: () => Promise<void>
}

/** With what only the client uses. */
export interface OpenThread extends Thread, OpenLive<ThreadState> {
  /** Shows a turn that is submitted here. */
  readonly add: (turn: OpenTurn) => void
}

/** A page of `GET /xapi/threads/:threadId`, the newest turn first. */
interface ThreadPage {
  readonly turns: readonly {
    readonly turnId: string
    readonly offset: string
    readonly outputs: readonly StreamOutput[]
  }[]
  readonly nextCursor?: string
}

export const createThread = (context: Context, threadId: string): OpenThread => {
  const route = path`/xapi/threads/${threadId}`
  const newest = `${route}?first=newest`
  const feed = createFeed()
  let submitted: Promise<unknown> | undefined

  const live = createLive<ThreadState>(context, {
    feed,
    path: route,
    threadId,
    async prepare(signal, report) {
      if (feed.cursor !== START) return
      const seen = submitted
      // Until then the thread may not exist.
      await seen
      let json = ''
      const response = await context.send(newest, { signal }).catch((error) => {
        // A submit may have created the thread meanwhile: then try again, as after a loss.
        throw seen === submitted ? error : new ClientError()
      })
      await readText(response, signal, report, (text) => {
        json += text
      })
      const page: ThreadPage = JSON.parse(json)
      const [last] = page.turns
      replaceNewest(feed, viewOf(page), page.nextCursor)
      feed.cursor = last ? `${last.turnId}/${last.offset}` : START
    },
    toState: ({ turns }, connection) => ({ turns, hasOlder: !!feed.older, connection }),
  })

  return Object.assign(live, {
    threadId,
    add(turn: OpenTurn) {
      const { turnId } = turn
      // Keeps the turn from being collected until it is answered.
      const show = () => live.change(addSubmitted, turn.getSnapshot().turn as TurnView)
      show()
      submitted = turn.accepted().then(
        // The thread did not exist before.
        live.reconnect,
        ({ code, message }: ClientError) => {
          turn.change(
            apply,
            code === 'ABORTED'
              ? { type: 'turn_complete', turnId, threadId, status: 'aborted' }
              : { type: 'turn_error', turnId, threadId, error: { code, message } },
          )
          show()
        },
      )
    },
    async loadOlder() {
      const { older } = feed
      if (!older) return
      const page: ThreadPage = await (await context.send(newest + path`&cursor=${older}`)).json()
      // Meanwhile this page was loaded by another call, or the thread again.
      if (older !== feed.older) return
      feed.older = page.nextCursor
      live.change(prepend, viewOf(page))
    },
  })
}

const viewOf = ({ turns }: ThreadPage): View =>
  turns
    .toReversed()
    // A call may be listed as completed by a later turn.
    .flatMap(({ turnId, outputs }) => outputs.map((output) => ({ ...output, turnId })))
    .reduce(apply, EMPTY_VIEW)
