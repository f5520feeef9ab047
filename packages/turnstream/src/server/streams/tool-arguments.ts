/** Tool arguments while they stream, derived from the events for the readers that request them. */

import { onAbort } from '@turnstream/core/internal/async/on-abort'
import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import { isForProcessor } from '@turnstream/core/internal/items/marks'
import type { LogRecord, TurnLog, TurnRecord } from '@turnstream/core/internal/log/turn-log'
import { LiveProcessor } from '@turnstream/core/internal/processor/stream-processor'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { isStreamEvent } from '@turnstream/core/internal/protocol/stream-event-guard'
import type { StreamOutput, ToolCall } from '@turnstream/core/internal/protocol/stream-output'
import { encodeSse } from '@turnstream/core/internal/sse/encode'
import { parseOffset, START } from '../../log/offsets.ts'
import type { GatewayContext } from '../context.ts'
import { isCall } from '../thread-outputs.ts'
import { Frame, type ToFrame } from './frames.ts'
import { ItemOrder } from './item-order.ts'
import type { SseConnection } from './sse-connection.ts'

/** When arguments are sent. */
export type ArgumentTiming = Pick<GatewayContext, 'clock' | 'emission'>

export interface ArgumentsOptions extends ArgumentTiming {
  readonly log: TurnLog
  readonly turn: Pick<TurnRecord, 'turnId' | 'threadId'>
}

/**
 * Sends the arguments of open calls, without an `id`: the cursor is a position in `processed`. A call waits for the items
 * that began before it, which come from `processed` and may be late. Nothing about a call follows its record in
 * `processed`.
 */
export class ArgumentSender {
  readonly #options: ArgumentsOptions
  readonly #connection: SseConnection
  readonly #stop = new AbortController()
  /** Calls with a record in `processed`. */
  readonly #stored = new Set<string>()
  /** Items that the client has, at least their beginning. */
  readonly #seen = new Set<string>()
  /** The place of the first item that the client does not have. */
  #unseen = 0
  #start: number
  /** The newest state of calls that have changed. */
  readonly #changed = new Map<string, ToolCall>()
  #wake = () => {}

  /** `after` is the client's cursor. */
  constructor(connection: SseConnection, options: ArgumentsOptions, after: string) {
    this.#connection = connection
    this.#options = options
    this.#start = parseOffset(after).seq
  }

  /** Called when `processed` starts over because the cursor is not valid. */
  restart(): void {
    this.#start = 0
    this.#seen.clear()
    this.#unseen = 0
  }

  /** Wraps the encoder of `processed`: the first record of a call that was sent before is an update. */
  wrap(toFrame: ToFrame): ToFrame {
    return (record, id, isFirst) => {
      if (!('output' in record)) return toFrame(record, id, isFirst)
      const { key: itemId } = record
      const isSent = this.#seen.has(itemId)
      this.#seen.add(itemId)
      // Runs after the frame was sent.
      if (!isSent) this.#wake()
      const output = callIn(record)
      if (output === undefined) return toFrame(record, id, isFirst)
      this.#stored.add(itemId)
      this.#changed.delete(itemId)
      if (output.status !== 'create' || !isSent) return toFrame(record, id, isFirst && !isSent)
      const data = JSON.stringify({ ...output, status: 'update' })
      return new Frame(encodeSse({ ...(id !== undefined && { id }), data }), id)
    }
  }

  /** Sends until `stop` is called or the client disconnects. Rejects if the store fails. */
  async run(): Promise<void> {
    const { log, turn } = this.#options
    const { signal } = this.#stop
    // A client that resumes may be past the record of a call that the feed has not seen end yet.
    const { records } = await log.snapshot(turn.turnId)
    for (const record of records) {
      if (record.firstSeq <= this.#start) this.#seen.add(record.key)
      if (callIn(record) !== undefined) this.#stored.add(record.key)
    }
    if (signal.aborted || this.#connection.signal.aborted) return
    const feed = feedOf(this.#options)
    const leave = feed.subscribe((call) => {
      if (call !== undefined) this.#changed.set(call.itemId, call)
      this.#wake()
    })
    try {
      await this.#sendAll(feed.order, signal)
    } finally {
      leave()
    }
  }

  stop(): void {
    this.#stop.abort()
    this.#wake()
  }

  async #sendAll(order: ItemOrder, signal: AbortSignal): Promise<void> {
    const stopListening = onAbort(this.#connection.signal, () => this.#wake())
    while (!signal.aborted && !this.#connection.signal.aborted) {
      const next = this.#nextDue(order)
      if (next !== undefined) await this.#send(next)
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    }
    stopListening()
  }

  /** Returns a call that has changed, if the client has all items before it. */
  #nextDue(order: ItemOrder): ToolCall | undefined {
    this.#unseen = order.firstUnseen(this.#unseen, this.#seen)
    for (const call of this.#changed.values()) {
      const isKnown = this.#seen.has(call.itemId)
      if (isKnown || order.placeOf(call.itemId) <= this.#unseen) return call
    }
    return undefined
  }

  async #send(call: ToolCall): Promise<void> {
    this.#changed.delete(call.itemId)
    const connection = this.#connection
    await connection.room(call.content.length)
    if (this.#stored.has(call.itemId) || this.#stop.signal.aborted) return
    const status = this.#seen.has(call.itemId) ? 'update' : 'create'
    const frame = new Frame(encodeSse({ data: JSON.stringify({ ...call, status }) }))
    this.#seen.add(call.itemId)
    if (!connection.send(frame)) await connection.drained()
  }
}

function callIn(record: LogRecord): ToolCall | undefined {
  if (!('output' in record) || !isCall(record)) return undefined
  return record.output.type === 'tool_call' ? record.output : undefined
}

/** Called without a call when another item was cancelled. */
type Listener = (call?: ToolCall) => void

/** The feeds of running turns, each shared by its readers in this process. */
const FEEDS = new WeakMap<TurnLog, Map<string, ArgumentFeed>>()

function feedOf(options: ArgumentsOptions): ArgumentFeed {
  const { log, turn } = options
  const feeds = FEEDS.get(log) ?? new Map<string, ArgumentFeed>()
  FEEDS.set(log, feeds)
  const known = feeds.get(turn.turnId)
  if (known !== undefined && !known.isOver) return known
  const feed = new ArgumentFeed(options)
  feeds.set(turn.turnId, feed)
  void feed.done.then(() => {
    if (feeds.get(turn.turnId) === feed) feeds.delete(turn.turnId)
  })
  return feed
}

/** Reads the events of a turn while anyone listens. */
class ArgumentFeed {
  /** Resolves when the turn has ended, was deleted or cannot be read, or when there are no listeners left. */
  readonly done: Promise<void>
  readonly order = new ItemOrder()
  readonly #stop = new AbortController()
  readonly #listeners = new Set<Listener>()
  /** The calls whose arguments are incomplete. */
  readonly #open = new Map<string, ToolCall>()
  readonly #processor: LiveProcessor
  #isCaughtUp = false

  constructor({ log, turn: { turnId, threadId }, clock, emission }: ArgumentsOptions) {
    const onShow = (output: StreamOutput) => this.#onShow(output)
    const options = { turnId, threadId, ...emission, clock, showToolArguments: true, onShow }
    this.#processor = new LiveProcessor(options)
    this.done = this.#read(log, turnId).finally(() => this.#processor.release())
  }

  get isOver(): boolean {
    return this.#stop.signal.aborted
  }

  /** Calls `listener` for every open call, now and whenever it has grown. */
  subscribe(listener: Listener): () => void {
    this.#processor.flush()
    this.#listeners.add(listener)
    if (this.#isCaughtUp) for (const call of this.#open.values()) listener(call)
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#stop.abort()
    }
  }

  async #read(log: TurnLog, turnId: string): Promise<void> {
    const tail = log.tail(turnId, 'events', START, this.#stop.signal)
    tail.caughtUp.then(this.#onCaughtUp, () => {})
    try {
      for await (const record of tail) {
        if (isSliceOver()) await nextSlice()
        if ('event' in record && isStreamEvent(record.event)) this.#apply(record.event)
      }
    } catch {
      // The same failure ends the streams of the readers, which read the other log of this turn.
    }
  }

  readonly #onCaughtUp = (): void => {
    this.#processor.flush()
    this.#isCaughtUp = true
    for (const call of this.#open.values()) this.#notify(call)
  }

  #apply(event: StreamEvent): void {
    const { payload } = event
    if (isForProcessor(event) && this.order.apply(payload)) this.#notify()
    // Texts are in `processed`.
    if (payload.type === 'item_start' && payload.item_type !== 'function_call') return
    const isOfItem = payload.type === 'item_delta' || payload.type === 'item_done'
    if (isOfItem && !this.#open.has(payload.item_id)) return
    if (isForProcessor(event)) this.#processor.apply(event)
  }

  #onShow(output: StreamOutput): void {
    if (output.type !== 'tool_call') return
    if (output.toolArgumentsText === undefined) this.#open.delete(output.itemId)
    else {
      this.#open.set(output.itemId, output)
      this.#notify(output)
    }
  }

  #notify(call?: ToolCall): void {
    if (this.#isCaughtUp) for (const listener of this.#listeners) listener(call)
  }
}
