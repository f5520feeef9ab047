import { type Clock, monotonicNow, systemClock } from '@turnstream/core/internal/async/clock'
import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import { isForProcessor } from '@turnstream/core/internal/items/marks'
import { UnsettledItems } from '@turnstream/core/internal/items/unsettled-items'
import type {
  Lease,
  LogName,
  NewRecord,
  Orphan,
  TurnLog,
  TurnRecord,
} from '@turnstream/core/internal/log/turn-log'
import { LiveProcessor } from '@turnstream/core/internal/processor/stream-processor'
import { type ErrorCode, hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { eventIdsOf } from '@turnstream/core/internal/protocol/ids'
import { outputKey } from '@turnstream/core/internal/protocol/output-codec'
import type {
  StreamEvent,
  StreamEventPayload,
  TraceContext,
} from '@turnstream/core/internal/protocol/stream-event'
import { isStreamEvent } from '@turnstream/core/internal/protocol/stream-event-guard'
import type {
  ItemSnapshot,
  StreamOutput,
  TurnComplete,
  TurnError,
} from '@turnstream/core/internal/protocol/stream-output'
import { ResponseReducer } from '@turnstream/core/internal/reducer/reduce'
import { parseOffset, START } from '../log/offsets.ts'
import { MAX_RECORD_CHARS } from '../log/records.ts'
import { logOf } from '../log/tenants.ts'
import type { TurnObserver } from './turn-observer.ts'
import { withTurnIds } from './turn-response.ts'

export interface ReaperOptions extends Required<OrphanOptions> {
  readonly log: TurnLog
  /** Returns whether this process runs the turn. Its run renews the lease, even if late. */
  readonly isRunning: (orphan: Orphan) => boolean
  readonly observer: TurnObserver
  readonly onError: (error: unknown, about: { readonly turnId?: string }) => void
}

// An orphan is ended within two seconds after its lease expires: one to notice it, one to end it.
const PAUSE_MS = 1000
const BATCH = 100

/** Periodically ends the turns of dead processes. */
export class Reaper {
  readonly #options: ReaperOptions
  #isStopped = false
  #first: Promise<void> | undefined
  #pass: Promise<void> = Promise.resolve()
  #cancelTimer = () => {}

  constructor(options: ReaperOptions) {
    this.#options = options
  }

  start(): Promise<void> {
    this.#first ??= this.#next()
    return this.#first
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancelTimer()
    await this.#pass
  }

  #next(): Promise<void> {
    if (!this.#isStopped) this.#pass = this.#endAll()
    return this.#pass
  }

  async #endAll(): Promise<void> {
    try {
      let left = 0
      let ended: number
      let before: number
      do {
        // Turns that cannot be ended now come first again. They must not hide the others.
        before = left
        const kept: Orphan[] = []
        ended = await this.#endSome(BATCH + before, kept)
        left = kept.length
      } while ((ended > 0 || left > before) && !this.#isStopped)
    } catch (error) {
      this.#options.onError(error, {})
    }
    if (this.#isStopped) return
    this.#cancelTimer = this.#options.clock.after(PAUSE_MS, () => void this.#next())
  }

  async #endSome(limit: number, kept: Orphan[]): Promise<number> {
    const { log, observer, onError, isRunning } = this.#options
    const ended = await endOrphans(log, {
      ...this.#options,
      limit,
      isRunning: (orphan) => {
        const isOurs = isRunning(orphan)
        if (isOurs) kept.push(orphan)
        return isOurs
      },
      onError: (error, orphan) => {
        kept.push(orphan)
        onError(error, { turnId: orphan.turnId })
      },
    })
    for (let count = 0; count < ended; count++) observer.orphanEnded()
    return ended
  }
}

export interface OrphansOptions extends OrphanOptions {
  /** Maximum number of turns to check. */
  readonly limit: number
  /** Returns whether this process still runs the turn, which is then skipped. */
  readonly isRunning?: (orphan: Orphan) => boolean
  /** Called for a turn that could not be ended now. The others are still ended. */
  readonly onError?: (error: unknown, orphan: Orphan) => void
}

/** Ends the turns of all tenants whose lease has expired. Returns how many this call ended. */
export async function endOrphans(log: TurnLog, options: OrphansOptions): Promise<number> {
  let ended = 0
  for (const orphan of await log.orphans(options.limit)) {
    if (options.isRunning?.(orphan)) continue
    try {
      const ending = await endOrphan(logOf(log, orphan.tenant), orphan.turnId, options)
      if (ending === 'ended') ended += 1
    } catch (error) {
      options.onError?.(error, orphan)
    }
  }
  return ended
}

export interface OrphanOptions {
  /** Name of the process that ends the turn. */
  readonly owner: string
  readonly leaseMs: number
  readonly clock?: Clock
}

/** `ended`: by this call. `sealed`: it had its end. `held`: another process has the lease, until it expires again. */
export type OrphanResult = 'ended' | 'held' | 'sealed'

const REFUSALS: Partial<Record<ErrorCode, OrphanResult>> = {
  LEASE_HELD: 'held',
  LEASE_LOST: 'held',
  LOG_SEALED: 'sealed',
}

const LOST = { code: 'PRODUCER_LOST', message: 'The process that wrote this turn is gone' }
const UNREADABLE = { code: 'STORE_CORRUPT', message: 'The end of this turn is unreadable' }
const NO_TRACE: TraceContext = { traceparent: '' }

/** A lease is renewed after a third of its duration. */
const RENEWALS_PER_LEASE = 3

/** No timer fires during a replay: the end emits everything that a timer would have. */
const TIMELESS: Clock = { now: () => 0, after: () => () => {} }

/**
 * Ends a turn whose owner is gone, so that no reader waits forever. Settles the items in `events` and ends
 * it with an error, unless it has an end. Then appends to `processed` what follows from `events` and is
 * missing, and its end. Any process may resume it after a crash: each log gets one end.
 */
export async function endOrphan(
  log: TurnLog,
  turnId: string,
  options: OrphanOptions,
): Promise<OrphanResult> {
  const { owner, leaseMs, clock = systemClock } = options
  const claimedAt = monotonicNow(clock)
  try {
    const lease = await log.claim(turnId, owner, leaseMs)
    const turn = await log.getTurn(turnId)
    if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
    const { records } = await log.snapshot(turnId)
    const stored = new Map(records.map(({ key, data }) => [key, data]))
    const orphan = new OrphanEnding({ log, turn, stored, lease, claimedAt, leaseMs, clock })
    await orphan.endEvents()
    await orphan.endProcessed()
    return 'ended'
  } catch (error) {
    const refusal = error instanceof TurnstreamError ? REFUSALS[error.code] : undefined
    if (refusal === undefined) throw error
    return refusal
  }
}

interface ClaimedOrphan extends Required<Omit<OrphanOptions, 'owner'>> {
  readonly log: TurnLog
  readonly turn: TurnRecord
  /** The newest record of `processed` by key. */
  readonly stored: ReadonlyMap<string, string>
  readonly lease: Lease
  readonly claimedAt: number
}

class OrphanEnding {
  readonly #orphan: ClaimedOrphan
  readonly #processor: LiveProcessor
  readonly #unsettled: UnsettledItems
  readonly #reducer = new ResponseReducer()
  /** What follows from the events and is missing in `processed`, by key: the last output of each item. */
  readonly #missing = new Map<string, StreamOutput>()
  #ending: TurnComplete | TurnError | undefined
  #responseId: string
  #traceContext: TraceContext | undefined
  #isWhole = true
  #renewAt: number

  constructor(orphan: ClaimedOrphan) {
    const { lease, turn, leaseMs, claimedAt } = orphan
    this.#orphan = orphan
    this.#renewAt = claimedAt + leaseMs / RENEWALS_PER_LEASE
    this.#responseId = lease.runId
    this.#unsettled = new UnsettledItems(lease.runId)
    this.#processor = new LiveProcessor({
      turnId: lease.turnId,
      threadId: turn.threadId,
      batchGradient: [],
      clock: TIMELESS,
      onShow: (output) => this.#derive(output),
    })
  }

  /** Reads `events`, settles its items and ends it, unless it has an end. */
  async endEvents(): Promise<void> {
    const { runId, next } = this.#orphan.lease
    await this.#readEvents()
    if (this.#ending !== undefined) return
    const settling = this.#unsettled.settleAll({ kind: 'failed', error: LOST })
    const response_id = this.#responseId
    const error: StreamEventPayload = { type: 'response_error', response_id, error: LOST }
    const eventId = eventIdsOf(runId, next.events - 1)
    const events = [...settling, error].map((payload) => this.#event(eventId(), payload))
    for (const event of events) this.#reducer.apply(event)
    try {
      await this.#writeAndSeal('events', events, this.#responseJson())
    } catch (cause) {
      // The log is sealed, but its end is unreadable.
      if (!hasCode(cause, 'LOG_SEALED')) throw cause
      return
    }
    for (const event of events) this.#replay(event)
  }

  async endProcessed(): Promise<void> {
    const { turnId, next } = this.#orphan.lease
    const { threadId } = this.#orphan.turn
    const end = this.#ending ?? { type: 'turn_error', turnId, threadId, error: UNREADABLE }
    // A trimmed log yields less than readers have already seen.
    const outputs = this.#isWhole ? [...this.#missing.values(), end] : [end]
    const eventId = eventIdsOf(`${turnId}/processed`, next.processed - 1)
    const timestamp = this.#orphan.clock.now()
    const entries = outputs.map((output) => ({ output, eventId: eventId(), timestamp }))
    await this.#writeAndSeal('processed', entries)
  }

  /** Reads to the current end of the log. No other process can write to it any more. */
  async #readEvents(): Promise<void> {
    const { log, lease } = this.#orphan
    const last = lease.next.events - 1
    if (last < 1) return
    const { signal } = new AbortController()
    try {
      for await (const record of log.tail(lease.turnId, 'events', START, signal)) {
        if (isSliceOver()) await nextSlice()
        await this.#keepLease()
        this.#isWhole &&= 'event' in record
        if (!('event' in record)) continue
        // A live processor also ignores malformed events and unknown types.
        if (isStreamEvent(record.event)) this.#apply(record.event)
        if (parseOffset(record.offset).seq >= last) break
      }
    } catch (error) {
      // Content that is deleted soon after its end may be gone before `processed` has one.
      if (!hasCode(error, 'TURN_EXPIRED')) throw error
      this.#isWhole = false
    }
  }

  #apply(event: StreamEvent): void {
    const { payload } = event
    this.#traceContext ??= event.trace_context
    if (payload.type === 'response_start') this.#responseId = payload.response_id
    this.#unsettled.apply(payload)
    this.#reducer.apply(event)
    this.#replay(event)
  }

  #replay(event: StreamEvent): void {
    if (!isForProcessor(event)) return
    // An item that is cancelled before anyone saw it is never emitted, so the processor must know which items
    // readers have seen.
    if (this.#orphan.stored.has(cancelledItem(event) ?? '')) this.#processor.flush()
    this.#processor.apply(event)
  }

  #derive(output: StreamOutput): void {
    if (output.type === 'turn_complete' || output.type === 'turn_error') {
      this.#ending = output
      return
    }
    const key = outputKey(output)
    const stored = this.#orphan.stored.get(key)
    if (stored === undefined ? isUnseen(output) : isSame(stored, output)) {
      this.#missing.delete(key)
      return
    }
    const status = stored === undefined ? 'create' : 'update'
    this.#missing.set(key, isGrowing(output) ? { ...output, status } : output)
  }

  #event(event_id: string, payload: StreamEventPayload): StreamEvent {
    return {
      event_id,
      timestamp: this.#orphan.clock.now(),
      trace_context: this.#traceContext ?? NO_TRACE,
      run_id: this.#orphan.lease.runId,
      type: payload.type,
      payload,
    } as StreamEvent
  }

  /** Undefined when part of the log is missing or the Response is too large. */
  #responseJson(): string | undefined {
    if (!this.#isWhole) return undefined
    const json = JSON.stringify(withTurnIds(this.#reducer.response, this.#orphan.turn))
    return json.length <= MAX_RECORD_CHARS ? json : undefined
  }

  async #writeAndSeal<Name extends LogName>(
    log: Name,
    entries: readonly NewRecord<Name>[],
    response?: string,
  ): Promise<void> {
    const writer = this.#orphan.log.open(this.#orphan.lease, log, { retryForMs: 0 })
    try {
      for (const [index, entry] of entries.entries()) {
        await this.#keepLease()
        if (index === entries.length - 1) await writer.seal(entry, response)
        else if (!writer.write(entry)) await writer.room()
      }
    } finally {
      writer.close()
    }
  }

  async #keepLease(): Promise<void> {
    const now = monotonicNow(this.#orphan.clock)
    if (now < this.#renewAt) return
    await this.#orphan.log.renew(this.#orphan.lease, this.#orphan.leaseMs)
    this.#renewAt = now + this.#orphan.leaseMs / RENEWALS_PER_LEASE
  }
}

function cancelledItem({ payload }: StreamEvent): string | undefined {
  if (payload.type === 'item_cancelled') return payload.item_id
  const isCancelled = payload.type === 'item_done' && payload.final_item.type === 'cancelled'
  return isCancelled ? payload.item_id : undefined
}

const GROWING = ['create', 'update'] as const

/** How often a growing text was emitted depends on timing. Readers see `create` first. */
function isGrowing(output: StreamOutput): output is ItemSnapshot {
  return 'itemId' in output && GROWING.some((status) => output.status === status)
}

/** A text that is cancelled before anyone saw it is never emitted. */
function isUnseen(output: StreamOutput): boolean {
  const isCancelled = 'errorCode' in output && output.errorCode === 'ITEM_CANCELLED'
  return isCancelled && output.type !== 'tool_call'
}

function isSame(stored: string, output: StreamOutput): boolean {
  if (!isGrowing(output)) return stored === JSON.stringify(output)
  return GROWING.some((status) => stored === JSON.stringify({ ...output, status }))
}
