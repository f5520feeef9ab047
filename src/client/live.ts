import { type ConnectionState, IDLE_STATE } from './connection.ts'
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
export interface Context extends Omit<RequestsOptions, 'token'>, Requests {
  readonly share?: Share
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
}

/** Follows a source. `publish` is for what else changes its feed. */
export function createLive<State extends { readonly connection: ConnectionState }>(
  context: Context,
  source: LiveSource<State>,
): Live<State> & { readonly publish: () => void } {
  const { feed, toState } = source
  const { page, share, send } = context
  const listeners = new Set<() => void>()
  let cancelFrame: (() => void) | undefined

  /** Of the connection as it is now. What listeners know may be older. */
  let current = IDLE_STATE
  let { view } = feed
  let state = toState(view, current)

  const publish = () => {
    cancelFrame?.()
    cancelFrame = undefined
    const next = feed.isHeld ? view : feed.view
    if (next === view && current === state.connection) return
    view = next
    state = toState(view, current)
    for (const listener of Array.from(listeners)) listener()
  }

  /** Publishes with the next frame, or at once at the end and on a hidden page, which draws none. */
  const changed = (): void => {
    if (isSettled(current) || page.isHidden()) publish()
    else cancelFrame ??= page.nextFrame(publish)
  }

  const connect: SharedStream['connect'] = (signal, report, onFrames) =>
    readStream(send, source, signal, report, (frames) => {
      changed()
      onFrames?.(frames)
    })
  const attempt = share?.({ ...source, context, changed, connect }) ?? connect
  const dispatch = createLink(context, attempt, (next) => {
    current = next
    changed()
  })

  const live: Live<State> & { readonly publish: () => void } = {
    getSnapshot: () => state,

    subscribe(listener) {
      // A function may be subscribed twice.
      const call = () => listener()
      listeners.add(call)
      dispatch('open')
      return () => {
        listeners.delete(call)
        // Frameworks unsubscribe and subscribe again in one go.
        queueMicrotask(() => {
          if (listeners.size) return
          dispatch('close')
          publish()
        })
      }
    },

    async *[Symbol.asyncIterator]() {
      yield* statesOf(live, () => isSettled(current) && !cancelFrame)
      const { status, cause } = current
      if (cause && (source.isOver || status === 'failed')) throw cause
    },

    async done() {
      for await (const each of live) void each
      return state
    },

    reconnect() {
      if (listeners.size) dispatch('open')
    },

    publish,
  }
  return live
}

const isSettled = ({ status }: ConnectionState) => ['ended', 'failed'].includes(status)

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
