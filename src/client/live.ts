import type { ConnectionState } from './connection.ts'
import { ClientError } from './errors.ts'
import { Feed, feedAttempt } from './feed.ts'
import { Link } from './link.ts'
import type { Requests } from './requests.ts'
import type { View } from './view.ts'

/**
 * Something of the gateway that is followed while somebody wants it: as a store (`subscribe` and `getSnapshot`), as an
 * async iterable of states, or as a promise of its end (`done`). Lost connections are resumed.
 */
export abstract class Live<State> {
  protected readonly feed: Feed
  protected readonly requests: Requests
  readonly #link: Link
  readonly #listeners = new Set<() => void>()
  /** Made when it is first needed: a subclass is not complete while it is constructed. */
  #state: State | undefined
  /** What `#state` is made of. */
  #shown: { readonly view: View; readonly connection: ConnectionState }
  #cancelFrame: (() => void) | undefined

  constructor(requests: Requests, path: string, feed: Feed) {
    this.requests = requests
    this.feed = feed
    const attempt = feedAttempt({
      requests,
      feed,
      path,
      prepare: (signal, heard) => this.prepare(signal, heard),
      isOver: () => this.isOver(),
      onFrames: () => this.changed(),
    })
    this.#link = new Link(requests.options, attempt, () => this.changed())
    this.#shown = { view: feed.view, connection: this.#link.state }
  }

  protected abstract toState(view: View, connection: ConnectionState): State
  protected abstract prepare(signal: AbortSignal, heard: () => void): Promise<void>
  /** Whether everything arrived. */
  protected abstract isOver(): boolean
  /** Why it ended without everything; undefined when deletion is its end. */
  protected abstract failure(connection: ConnectionState): ClientError | undefined

  /** The current state. The same object until listeners are called. */
  readonly getSnapshot = (): State => {
    this.#state ??= this.toState(this.#shown.view, this.#shown.connection)
    return this.#state
  }

  /**
   * Calls `listener` after changes, at most once per frame of the page. The connection is open while there are
   * listeners. Returns how to unsubscribe.
   */
  readonly subscribe = (listener: () => void): (() => void) => {
    // A function may be subscribed twice.
    const call = () => listener()
    this.#listeners.add(call)
    this.#link.dispatch({ type: 'open' })
    return () => {
      if (!this.#listeners.delete(call)) return
      // Frameworks unsubscribe and subscribe again in one go.
      queueMicrotask(() => {
        if (this.#listeners.size === 0) this.#close()
      })
    }
  }

  /** Yields each state, or the newest if several came meanwhile, until the end. Throws ClientError if it fails. */
  async *[Symbol.asyncIterator](): AsyncGenerator<State, void> {
    let wake: (() => void) | undefined
    let shown: State | undefined
    const unsubscribe = this.subscribe(() => wake?.())
    try {
      for (;;) {
        const state = this.getSnapshot()
        if (state !== shown) {
          shown = state
          yield state
        } else if (this.#link.isSettled && this.#cancelFrame === undefined) {
          break
        } else {
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      }
    } finally {
      unsubscribe()
    }
    const error = this.failure(this.#link.state)
    if (error !== undefined) throw error
  }

  /** Waits for the end and returns the last state. Throws ClientError if it fails. */
  async done(): Promise<State> {
    for await (const state of this) void state
    return this.getSnapshot()
  }

  /** Connects again after a failure, or at once instead of waiting. Does nothing without listeners. */
  reconnect(): void {
    if (this.#listeners.size > 0) this.#link.dispatch({ type: 'open' })
  }

  /** Publishes what changed with the next frame, or at once at the end. */
  protected changed(): void {
    if (this.#link.isSettled) this.#publish()
    else this.#cancelFrame ??= this.requests.options.page.nextFrame(() => this.#publish())
  }

  #publish(isForced = false): void {
    this.#cancelFrame?.()
    this.#cancelFrame = undefined
    const connection = this.#link.state
    const view = this.feed.isHeld ? this.#shown.view : this.feed.view
    if (!isForced && view === this.#shown.view && connection === this.#shown.connection) return
    this.#shown = { view, connection }
    this.#state = undefined
    for (const listener of Array.from(this.#listeners)) listener()
  }

  /** Publishes what is not part of the view. */
  protected republish(): void {
    this.#publish(true)
  }

  #close(): void {
    this.#link.dispatch({ type: 'close' })
    this.#publish()
  }
}
