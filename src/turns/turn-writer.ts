import type { Clock } from '../async/clock.ts'
import { Fifo } from '../async/fifo.ts'
import { LogWriter, type WriteOptions } from '../log/log-writer.ts'
import type { Lease, TurnLog } from '../log/turn-log.ts'
import { StreamProcessor } from '../processor/stream-processor.ts'
import { hasCode } from '../protocol/errors.ts'
import { eventIdsOf } from '../protocol/ids.ts'
import { isInputItem } from '../protocol/input-items.ts'
import type { StreamEvent, StreamEventPayload, TraceContext } from '../protocol/stream-event.ts'
import type { StreamMessage, StreamOutput } from '../protocol/stream-output.ts'
import { EventText } from './event-text.ts'
import { FencedLog } from './fenced-log.ts'
import { isForProcessor } from './opening.ts'
import { type TurnCounts, type TurnObserver, unobserved } from './turn-observer.ts'
import { TurnResponse } from './turn-response.ts'
import type { UnsettledItems } from './unsettled-items.ts'

export interface TurnWriterOptions {
  readonly log: TurnLog
  readonly lease: Lease
  readonly threadId: string
  readonly traceContext: TraceContext
  readonly clock: Clock
  readonly leaseMs: number
  /** Told of everything that is written. */
  readonly unsettled: UnsettledItems
  readonly observer?: TurnObserver
  /** Told once, when nothing can be written any more. */
  readonly onLost: (error: unknown) => void
  readonly onError: (error: unknown) => void
}

// Two appends of the largest size may be under way or wait; and the snapshots that so many events cause
// are far from what a processor holds back at most.
const MAX_UNSETTLED = 500
const ROOM_AGAIN = MAX_UNSETTLED / 2

// A turn with more items shows what is left of them before its end, which would be too much at once.
const MANY_ITEMS = 200

// A store may be away for as long as the lease lasts, and the last try comes so much earlier than that.
const LONGEST_PAUSE_MS = 1000

/**
 * Writes a turn: each event to the log `events`, from there, once it is durable, to the processor, and
 * what that shows to the log `processed`. What can no longer be written is dropped.
 */
export class TurnWriter {
  readonly #options: TurnWriterOptions
  readonly #fence: FencedLog
  readonly #events: LogWriter
  readonly #outputs: LogWriter
  readonly #processor: StreamProcessor
  readonly #nextEventId: () => string
  readonly #text: EventText
  readonly #counts: TurnCounts
  readonly #response: TurnResponse
  /** Handed to the log, in order, and not acknowledged yet. */
  readonly #unacknowledged = new Fifo<StreamEvent>()
  #unsettled = 0
  #isShowing = false
  #items = 0
  #waiters: { readonly isReached: () => boolean; readonly resolve: () => void }[] = []
  #failure: { readonly error: unknown } | undefined

  constructor(options: TurnWriterOptions) {
    const { log, lease, threadId, traceContext, clock, leaseMs, onError } = options
    const { observer = unobserved() } = options
    const { turnId, runId, next } = lease
    this.#options = options
    this.#counts = observer.counts
    this.#response = new TurnResponse(options.unsettled)
    this.#fence = new FencedLog(log, clock, observer)
    const retryForMs = leaseMs + LONGEST_PAUSE_MS
    this.#events = new LogWriter(this.#fence, lease, 'events', { clock, retryForMs })
    this.#outputs = new LogWriter(this.#fence, lease, 'processed', { clock, retryForMs })
    this.#nextEventId = eventIdsOf(runId, next.events - 1)
    this.#text = new EventText(runId, traceContext)
    this.#processor = new StreamProcessor({
      turnId,
      threadId,
      clock,
      // The writers of the logs try again by themselves; what they give up stays given up.
      retryAttempts: 0,
      generateId: eventIdsOf(`${turnId}/processed`, next.processed - 1),
      onEmit: (message, output) => this.#show(message, output),
      onError: (error) => {
        if (this.#failure === undefined) onError(error)
      },
    })
  }

  /** Whether whoever writes should wait for room. */
  get isFull(): boolean {
    return this.#unsettled >= MAX_UNSETTLED
  }

  write(payload: StreamEventPayload): void {
    if (this.#failure !== undefined) return
    if (payload.type === 'item_start') this.#items += 1
    this.#write(payload)
    const { unsettled, lease } = this.#options
    const isInput = payload.type === 'item_done' && isInputItem(lease.runId, payload.item_id)
    unsettled.take(payload, isInput)
  }

  /** As `write`, one after the other, each when there is room. */
  async writeAll(payloads: Iterable<StreamEventPayload>): Promise<void> {
    for (const payload of payloads) {
      this.write(payload)
      if (this.isFull) await this.room()
    }
  }

  /** Resolves when there is room, and also when there is no use in waiting. */
  room(): Promise<void> {
    return this.#until(() => this.#unsettled <= ROOM_AGAIN)
  }

  /** Resolves when all events so far are durable; rejects if they will never be. */
  async durable(): Promise<void> {
    await this.#until(() => this.#unacknowledged.size === 0)
    if (this.#failure !== undefined) throw this.#failure.error
  }

  /** Writes the last event. Resolves when both logs are sealed, or cannot be. */
  async end(payload: StreamEventPayload): Promise<void> {
    if (this.#items > MANY_ITEMS) {
      await this.#until(() => this.#unsettled === 0)
      await this.#processor.flush().catch(() => {}) // what failed is known from `#show`
    }
    if (this.#failure !== undefined) return
    this.#write(payload, true)
    await this.#until(() => this.#unsettled === 0)
  }

  /** Whether an append was not answered for as long as the lease lasts. */
  get isStuck(): boolean {
    const { leaseMs } = this.#options
    const isWriting = this.#unacknowledged.size > 0
    return (
      (isWriting && this.#fence.sinceWrite('events') >= leaseMs) ||
      (this.#isShowing && this.#fence.sinceWrite('processed') >= leaseMs)
    )
  }

  /** Writes nothing from now on, whatever is under way. */
  letGo(error: unknown): void {
    if (this.#failure !== undefined) return
    this.#failure = { error }
    this.#fence.close()
    this.#wake()
  }

  /** Lets go of the processor and its timer. Of a turn that was let go nothing more is shown. */
  release(): void {
    this.#processor.destroy().catch(() => {}) // see above
  }

  #write(payload: StreamEventPayload, isLast = false): void {
    const { lease, clock, traceContext } = this.#options
    // First, because a payload of an unruly provider may throw, and no id may be lost by that.
    const json = this.#text.payload(payload)
    const event_id = this.#nextEventId()
    const timestamp = Math.trunc(clock.now())
    const event = {
      event_id,
      timestamp,
      trace_context: traceContext,
      run_id: lease.runId,
      type: payload.type,
      payload,
    } as StreamEvent
    const text = this.#text.event(event_id, timestamp, payload, json)
    this.#unsettled += 1
    this.#unacknowledged.push(event)
    if (payload.type !== 'item_delta') this.#response.take(event)
    this.#events.writeWith(this.#settler, text, isLast ? this.#seal() : undefined)
  }

  /** A turn without its Response is read by its events, so that a failure here must not cost the end. */
  #seal(): WriteOptions {
    try {
      const response = this.#response.toJson()
      if (response !== undefined) return { seal: true, response }
    } catch (error) {
      this.#options.onError(error)
    }
    return { seal: true }
  }

  // These are made once for each turn, and not once for each of its events.

  readonly #acknowledge = (): void => {
    const event = this.#unacknowledged.shift()
    this.#counts.events += 1
    if (this.#failure !== undefined) return
    if (isForProcessor(event)) {
      void this.#processor.processEvent(event).then(this.#settle, this.#refuse)
    } else this.#settle()
    if (this.#waiters.length > 0) this.#wake()
  }

  readonly #settle = (): void => {
    this.#unsettled -= 1
    if (this.#waiters.length > 0) this.#wake()
  }

  /** The processor did not take an event, or the log `processed` did not take what came of it. */
  readonly #refuse = (error: unknown): void => {
    this.#settle()
    // What the processor cannot read it passes over when it reads the log again, too.
    if (hasCode(error, 'EVENT_INVALID')) this.#options.onError(error)
    else this.#fail(error)
  }

  readonly #fail = (error: unknown): void => {
    if (this.#failure !== undefined) return
    this.letGo(error)
    this.#options.onLost(error)
  }

  readonly #settler = { resolve: this.#acknowledge, reject: this.#fail }

  async #show({ eventId, timestamp, payload }: StreamMessage, output: StreamOutput): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure.error
    const seal = output.type === 'turn_complete' || output.type === 'turn_error'
    const key = 'itemId' in output ? output.itemId : output.type
    this.#isShowing = true
    try {
      await this.#outputs.write(payload, { key, eventId, timestamp, seal })
    } catch (error) {
      this.#fail(error)
      throw error
    }
    this.#isShowing = false
    this.#counts.snapshots += 1
  }

  /** Resolves as soon as it is so, or will never be. */
  #until(isReached: () => boolean): Promise<void> {
    if (this.#failure !== undefined || isReached()) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiters.push({ isReached, resolve })
    })
  }

  #wake(): void {
    const waiters = this.#waiters
    this.#waiters = []
    for (const waiter of waiters) {
      if (this.#failure !== undefined || waiter.isReached()) waiter.resolve()
      else this.#waiters.push(waiter)
    }
  }
}
