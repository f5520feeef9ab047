import { type Clock, monotonicNow, systemClock } from '../async/clock.ts'
import { isSliceOver, nextSlice } from '../async/time-slice.ts'
import { parseOffset, START } from '../log/offsets.ts'
import { MAX_RECORD_CHARS } from '../log/records.ts'
import type { Entries, Lease, LogName, TurnLog, TurnRecord } from '../log/turn-log.ts'
import { LiveProcessor } from '../processor/processor-core.ts'
import { type ErrorCode, hasCode, TurnstreamError } from '../protocol/errors.ts'
import { eventIdsOf } from '../protocol/ids.ts'
import { isInputItem } from '../protocol/input-items.ts'
import type {
  ErrorObject,
  StreamEvent,
  StreamEventPayload,
  TraceContext,
} from '../protocol/stream-event.ts'
import { isStreamEvent } from '../protocol/stream-event-guard.ts'
import { ResponseReducer } from '../reducer/response-reducer.ts'
import { DerivedOutputs } from './derived-outputs.ts'
import { isForProcessor } from './opening.ts'
import { withTurnIds } from './turn-response.ts'
import { UnsettledItems } from './unsettled-items.ts'

export interface OrphanOptions {
  /** The name of whoever ends the turn. */
  readonly owner: string
  readonly leaseMs: number
  readonly clock?: Clock
}

/**
 * `ended`: by this call. `sealed`: there was nothing left to do. `held`: somebody has the lease, or it was
 * lost to somebody in the middle; if that one dies too, the turn shows up among the expired again.
 */
export type OrphanResult = 'ended' | 'held' | 'sealed'

const REFUSALS: Partial<Record<ErrorCode, OrphanResult>> = {
  LEASE_HELD: 'held',
  LEASE_LOST: 'held',
  LOG_SEALED: 'sealed',
}

const LOST: ErrorObject = {
  code: 'PRODUCER_LOST',
  message: 'The process that wrote this turn is gone',
}

const UNREADABLE: ErrorObject = {
  code: 'STORE_CORRUPT',
  message: 'The end of this turn cannot be read',
}

const NO_TRACE: TraceContext = { traceparent: '' }

/** A lease is renewed when a third of it has passed. */
const RENEWALS_PER_LEASE = 3

/** No timer rings while a turn is replayed: what time showed to readers, the end shows as well. */
const TIMELESS: Clock = { now: () => 0, after: () => () => {} }

/**
 * Ends a turn whose owner is gone, so that no reader waits for ever. The items in `events` are settled and
 * it gets an error as its end, unless it has one; `processed` gets whatever follows from `events` and was not
 * shown yet, then its end. May stop anywhere and be begun again by anybody: each log gets one end.
 */
export async function endOrphan(
  log: TurnLog,
  turnId: string,
  options: OrphanOptions,
): Promise<OrphanResult> {
  const clock = options.clock ?? systemClock
  const claimedAt = monotonicNow(clock)
  try {
    const { owner, leaseMs } = options
    const lease = await log.claim(turnId, owner, leaseMs)
    const orphan = await Orphan.load(log, { lease, claimedAt, leaseMs, clock })
    await orphan.endEvents()
    await orphan.endProcessed()
    return 'ended'
  } catch (error) {
    const refusal = error instanceof TurnstreamError ? REFUSALS[error.code] : undefined
    if (refusal === undefined) throw error
    return refusal
  }
}

interface ClaimOptions {
  readonly lease: Lease
  readonly leaseMs: number
  readonly clock: Clock
  readonly claimedAt: number
}

class Orphan {
  readonly #log: TurnLog
  readonly #lease: Lease
  readonly #turn: TurnRecord
  readonly #leaseMs: number
  readonly #clock: Clock
  /** The newest record of `processed` of every key. */
  readonly #stored: ReadonlyMap<string, string>
  readonly #derived: DerivedOutputs
  readonly #processor: LiveProcessor
  readonly #unsettled = new UnsettledItems()
  readonly #reducer = new ResponseReducer()
  #responseId: string
  #traceContext: TraceContext | undefined
  #isWhole = true
  #renewAt: number

  private constructor(
    log: TurnLog,
    turn: TurnRecord,
    stored: ReadonlyMap<string, string>,
    options: ClaimOptions,
  ) {
    const { lease } = options
    this.#log = log
    this.#lease = lease
    this.#turn = turn
    this.#leaseMs = options.leaseMs
    this.#clock = options.clock
    this.#renewAt = options.claimedAt + options.leaseMs / RENEWALS_PER_LEASE
    this.#responseId = lease.runId
    this.#stored = stored
    const derived = new DerivedOutputs(stored)
    this.#derived = derived
    this.#processor = new LiveProcessor({
      turnId: lease.turnId,
      threadId: turn.threadId,
      batchGradient: [],
      clock: TIMELESS,
      onShow: (output) => derived.take(output),
    })
  }

  static async load(log: TurnLog, options: ClaimOptions): Promise<Orphan> {
    const { lease } = options
    const turn = await log.getTurn(lease.turnId)
    if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', lease.turnId)
    const { records } = await log.snapshot(lease.turnId)
    const stored = new Map(records.map(({ key, data }) => [key, data]))
    return new Orphan(log, turn, stored, options)
  }

  /** Reads the log `events`, settles its items and ends it, unless it has its end. */
  async endEvents(): Promise<void> {
    const { next } = this.#lease
    await this.#readEvents()
    if (this.#derived.ending !== undefined) return
    const settling = this.#unsettled.settleAll({ kind: 'failed', error: LOST })
    const error: StreamEventPayload = {
      type: 'response_error',
      response_id: this.#responseId,
      error: LOST,
    }
    const eventId = eventIdsOf(this.#lease.runId, next.events - 1)
    const events = [...settling, error].map((payload) => this.#event(eventId(), payload))
    for (const event of events) this.#reducer.apply(event)
    try {
      await this.#writeAndSeal('events', events, this.#responseJson())
    } catch (cause) {
      // The log is sealed, and its end cannot be read.
      if (!hasCode(cause, 'LOG_SEALED')) throw cause
      return
    }
    for (const event of events) this.#replay(event)
  }

  async endProcessed(): Promise<void> {
    const { turnId, next } = this.#lease
    const { threadId } = this.#turn
    const { missing, ending } = this.#derived
    const end = ending ?? { type: 'turn_error', turnId, threadId, error: UNREADABLE }
    // What is left of a trimmed log says less than what readers have seen.
    const outputs = this.#isWhole ? [...missing.values(), end] : [end]
    const eventId = eventIdsOf(`${turnId}/processed`, next.processed - 1)
    const timestamp = this.#clock.now()
    const entries = outputs.map((output) => ({ output, eventId: eventId(), timestamp }))
    await this.#writeAndSeal('processed', entries)
  }

  /** Reads as far as the log goes now: nobody else can write to it any more. */
  async #readEvents(): Promise<void> {
    const last = this.#lease.next.events - 1
    if (last < 1) return
    const controller = new AbortController()
    const records = this.#log.tail(this.#lease.turnId, 'events', START, controller.signal)
    for await (const record of records) {
      if (isSliceOver()) await nextSlice()
      await this.#keepLease()
      if ('event' in record) {
        // What is malformed or of an unknown type a live processor passes over too.
        if (isStreamEvent(record.event)) this.#take(record.event)
        if (parseOffset(record.offset).seq >= last) break
      } else this.#isWhole = false
    }
    controller.abort()
  }

  #take(event: StreamEvent): void {
    const { payload, run_id } = event
    this.#traceContext ??= event.trace_context
    if (payload.type === 'response_start') this.#responseId = payload.response_id
    const isInput = payload.type === 'item_done' && isInputItem(run_id, payload.item_id)
    this.#unsettled.take(payload, isInput)
    this.#reducer.apply(event)
    this.#replay(event)
  }

  #replay(event: StreamEvent): void {
    if (!isForProcessor(event)) return
    // An item that was cancelled before anybody saw it is never shown; the processor must know of those
    // that readers have seen.
    if (this.#stored.has(cancelledItem(event) ?? '')) this.#processor.flush()
    this.#processor.take(event)
  }

  #event(event_id: string, payload: StreamEventPayload): StreamEvent {
    return {
      event_id,
      timestamp: this.#clock.now(),
      trace_context: this.#traceContext ?? NO_TRACE,
      run_id: this.#lease.runId,
      type: payload.type,
      payload,
    } as StreamEvent
  }

  /** Undefined where part of the log is missing, or for a Response that is too large. */
  #responseJson(): string | undefined {
    if (!this.#isWhole) return undefined
    const json = JSON.stringify(withTurnIds(this.#reducer.response, this.#turn))
    return json.length <= MAX_RECORD_CHARS ? json : undefined
  }

  async #writeAndSeal<Name extends LogName>(
    log: Name,
    entries: readonly Entries[Name][],
    response?: string,
  ): Promise<void> {
    const writer = this.#log.open(this.#lease, log, { retryForMs: 0 })
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
    const now = monotonicNow(this.#clock)
    if (now < this.#renewAt) return
    await this.#log.renew(this.#lease, this.#leaseMs)
    this.#renewAt = now + this.#leaseMs / RENEWALS_PER_LEASE
  }
}

function cancelledItem({ payload }: StreamEvent): string | undefined {
  switch (payload.type) {
    case 'item_cancelled':
      return payload.item_id
    case 'item_done':
      return payload.final_item.type === 'cancelled' ? payload.item_id : undefined
    default:
      return undefined
  }
}
