import type { ConnectionState } from './connection.ts'
import type { ClientError } from './errors.ts'
import { type Attempt, createLink, type Report } from './link.ts'
import type { Requests, RequestsOptions } from './requests.ts'
import { type OnFrames, readStream, type Source } from './stream.ts'
import type { View } from './view.ts'

/**
 * Something of the gateway that is followed while somebody wants it: as a store (`subscribe` and `getSnapshot`), as an
 * async iterable of states, or as a promise of its end (`done`). Lost connections are resumed.
 */
export interface Live<State> {
  /** Returns the current state: the same object until listeners are called. */
  readonly getSnapshot: () => State
  /**
   * Calls `listener` after changes, at most once per frame of the page. The connection is open while there are
   * listeners. Returns how to unsubscribe.
   */
  readonly subscribe: (listener: () => void) => () => void
  /** Yields each state, or the newest if several came meanwhile, until the end. Throws ClientError if it fails. */
  readonly [Symbol.asyncIterator]: () => AsyncGenerator<State, void>
  /** Waits for the end and returns the last state. Throws ClientError if it fails. */
  readonly done: () => Promise<State>
  /** Connects again after a failure, or at once instead of waiting. Does nothing without listeners. */
  readonly reconnect: () => void
}

/** What everything of a client has in common. */
export interface Context extends RequestsOptions, Requests {
  readonly share: Share | undefined
  /** The end of the path of a stream, with the first parameter. */
  readonly query: string
}

/** A stream as `turnstream/client/share` sees it. */
export interface SharedStream extends Source {
  readonly context: Context
  /** Publishes what was taken. */
  readonly changed: () => void
  /** Reads the stream itself. */
  readonly connect: (signal: AbortSignal, report: Report, onFrames?: OnFrames) => Promise<void>
}

/** Lets several pages use one connection. */
export type Share = (stream: SharedStream) => Attempt

export interface LiveSource<State> extends Source {
  readonly toState: (view: View, connection: ConnectionState) => State
  /** Why it ended without everything. */
  readonly toFailure: (connection: ConnectionState) => ClientError | undefined
}

/** Follows a source. `publish` is for what else changes its feed. */
export function createLive<State>(
  context: Context,
  source: LiveSource<State>,
): Live<State> & { readonly publish: () => void } {
  const { feed, toState } = source
  const { page, share, send } = context
  const listeners = new Set<() => void>()
  let cancelFrame: (() => void) | undefined

  const isSettled = () => ['ended', 'failed'].includes(link.state().status)

  /** Publishes with the next frame, or at once at the end and on a hidden page, which draws none. */
  const changed = (): void => {
    if (isSettled() || page.isHidden()) publish()
    else cancelFrame ??= page.nextFrame(publish)
  }

  const connect: SharedStream['connect'] = (signal, report, onFrames) =>
    readStream(send, source, signal, report, (frames) => {
      changed()
      onFrames?.(frames)
    })
  const attempt = share?.({ ...source, context, changed, connect }) ?? connect
  const link = createLink(context, attempt, changed)

  let view = feed.view
  let connection = link.state()
  let state = toState(view, connection)

  const publish = () => {
    cancelFrame?.()
    cancelFrame = undefined
    const next = feed.isHeld ? view : feed.view
    if (next === view && link.state() === connection) return
    view = next
    connection = link.state()
    state = toState(view, connection)
    for (const listener of Array.from(listeners)) listener()
  }

  const live: Live<State> & { readonly publish: () => void } = {
    getSnapshot: () => state,

    subscribe(listener) {
      // A function may be subscribed twice.
      const call = () => listener()
      listeners.add(call)
      link.dispatch({ type: 'open' })
      return () => {
        listeners.delete(call)
        // Frameworks unsubscribe and subscribe again in one go.
        queueMicrotask(() => {
          if (listeners.size > 0) return
          link.dispatch({ type: 'close' })
          publish()
        })
      }
    },

    async *[Symbol.asyncIterator]() {
      yield* statesOf(live, () => isSettled() && !cancelFrame)
      const error = source.toFailure(connection)
      if (error) throw error
    },

    async done() {
      for await (const each of live) void each
      return state
    },

    reconnect() {
      if (listeners.size > 0) link.dispatch({ type: 'open' })
    },

    publish,
  }
  return live
}

/** Yields each state of a store, or the newest if several came meanwhile. */
async function* statesOf<State>(live: Live<State>, isLast: () => boolean): AsyncGenerator<State> {
  let wake: (() => void) | undefined
  let shown: State | undefined
  const unsubscribe = live.subscribe(() => wake?.())
  try {
    for (;;) {
      if (shown !== live.getSnapshot()) {
        shown = live.getSnapshot()
        yield shown
      } else if (isLast()) {
        return
      } else {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    }
  } finally {
    unsubscribe()
  }
}
