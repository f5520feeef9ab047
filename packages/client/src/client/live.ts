/**
 * The path of an answer through this folder:
 *
 * 1. `link` keeps a request open, as the table of `connection` decides, with `requests` for tokens.
 * 2. `stream` reads its body, and `sse` splits it into frames. With `share`, frames may come from another page.
 * 3. `feed` takes each frame: it moves the cursor and applies the frame to the `view`.
 * 4. `live` publishes the view and the connection, once per frame of the page.
 *
 * `turn` and `thread` say what is read and what a state looks like. `client` creates and shares them.
 */
import { type ConnectionState, IDLE_STATE } from './connection.ts'
import { type Attempt, createLink } from './link.ts'
import type { Requests, RequestsOptions } from './requests.ts'
import { readStream, type Source } from './stream.ts'
import type { View } from './view.ts'

/**
 * A turn or thread that is followed while it is used: as a store (`subscribe` and `getSnapshot`), as an async iterable
 * of states, or as a promise of its end (`done`). Lost connections are resumed.
 */
export interface Live<State> {
  /** Returns the current state: the same object until listeners are called. */
  readonly getSnapshot: () => State
  /**
   * Calls `listener` after changes, at most once per frame of the page. The connection is open while there are
   * listeners. Returns a function that unsubscribes.
   */
  readonly subscribe: (listener: () => void) => () => void
  /** Yields each state, or the newest if several came meanwhile, until the end. Throws ClientError if it fails. */
  readonly [Symbol.asyncIterator]: () => AsyncGenerator<State, void>
  /** Waits for the end and returns the last state. Throws ClientError if it fails. */
  readonly done: () => Promise<State>
  /** Connects again after a failure, or at once instead of waiting. Does nothing without listeners. */
  readonly reconnect: () => void
}

/** What the turns and threads of a client share. */
export interface Context extends Omit<RequestsOptions, 'token'>, Requests {
  readonly share?: Share
  /** The end of the path of a stream, with the first parameter. */
  readonly query: string
}

/** A stream as `turnstream/client/share` sees it. */
export interface SharedStream extends Source {
  readonly context: Context
  /** Publishes what the feed has taken. */
  readonly changed: () => void
}

/** Lets several pages use one connection. */
export type Share = (stream: SharedStream) => Attempt

export interface LiveSource<State> extends Source {
  readonly toState: (view: View, connection: ConnectionState) => State
}

/** With what only the client uses. */
export interface OpenLive<State> extends Live<State> {
  readonly change: <T>(update: (view: View, value: T) => View, value: T) => void
}

// oxlint-disable-next-line max-lines-per-function -- small closures over one state; split, they are 30 bytes larger
export const createLive = <State extends { readonly connection: ConnectionState }>(
  context: Context,
  source: LiveSource<State>,
): OpenLive<State> => {
  const { feed, toState } = source
  const { page, share } = context
  let listeners: readonly (() => void)[] = []
  let isFrameDue = false

  /** The connection as it is now. What listeners know may be older. */
  let current = IDLE_STATE
  let view = feed.view
  let state = toState(view, current)

  const publish = () => {
    isFrameDue = false
    if (feed.view === view && current === state.connection) return
    view = feed.view
    state = toState(view, current)
    for (const listener of listeners) listener()
  }

  /** Publishes with the next frame, or at once at the end and on a hidden page, which draws none. */
  const changed = (): void => {
    if (isSettled(current) || page.isHidden()) return publish()
    if (!isFrameDue) page.nextFrame(publish)
    isFrameDue = true
  }

  const attempt: Attempt =
    share?.({ ...source, context, changed }) ??
    ((signal, report) => readStream(context, source, signal, report, changed))
  const dispatch = createLink(context, attempt, (next) => {
    current = next
    changed()
  })

  const live: OpenLive<State> = {
    getSnapshot: () => state,

    subscribe(listener) {
      // A function may be subscribed twice.
      const call = () => listener()
      listeners = [...listeners, call]
      dispatch('open')
      const stop = page.onWake(
        // What does not exist may have been created by another page.
        () => {
          if (current.status === 'failed') dispatch('open')
        },
        // A turn ends by itself, and may be awaited.
        () => {
          if (!source.isOver) dispatch('hidden')
        },
      )
      return () => {
        stop()
        listeners = listeners.filter((each) => each !== call)
        // Frameworks unsubscribe and subscribe again in one go.
        queueMicrotask(() => {
          if (listeners[0]) return
          dispatch('close')
          publish()
        })
      }
    },

    async *[Symbol.asyncIterator]() {
      let wake: (() => void) | undefined
      let shown: State | undefined
      const unsubscribe = live.subscribe(() => wake?.())
      try {
        while (state !== shown || !isSettled(current)) {
          if (state !== shown) yield (shown = state)
          else {
            await new Promise<void>((resolve) => {
              wake = resolve
            })
          }
        }
      } finally {
        unsubscribe()
      }
      if (current.cause && (source.isOver || current.status === 'failed')) throw current.cause
    },

    async done() {
      for await (const each of live) void each
      return state
    },

    reconnect() {
      if (listeners[0]) dispatch('open')
    },

    change(update, value) {
      feed.view = update(feed.view, value)
      publish()
    },
  }
  return live
}

const isSettled = ({ status }: ConnectionState) => status === 'ended' || status === 'failed'
