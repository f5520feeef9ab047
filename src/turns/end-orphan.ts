import { type Clock, systemClock } from '../async/clock.ts'
import { START } from '../log/offsets.ts'
import { MAX_APPEND_RECORDS } from '../log/records.ts'
import type { Lease, NewRecord, TurnLog } from '../log/turn-log.ts'
import { StreamProcessor } from '../processor/stream-processor.ts'
import { type ErrorCode, hasCode, TurnstreamError } from '../protocol/errors.ts'
import { eventIdsOf } from '../protocol/ids.ts'
import { parseJsonSafe } from '../protocol/json.ts'
import type { ErrorObject, StreamEvent, TraceContext } from '../protocol/stream-event.ts'
import { isStreamEvent } from '../protocol/stream-event-guard.ts'
import type { StreamOutput } from '../protocol/stream-output.ts'
import { DerivedOutputs } from './derived-outputs.ts'
import { isForProcessor } from './opening.ts'

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
 * Ends a turn whose owner is gone, so that no reader waits for ever. `events` gets an error as its end,
 * unless it has one; `processed` gets whatever follows from `events` and was not shown yet, then its end.
 * May stop anywhere and be begun again by anybody: each log gets one end.
 */
export async function endOrphan(
  log: TurnLog,
  turnId: string,
  options: OrphanOptions,
): Promise<OrphanResult> {
  const clock = options.clock ?? systemClock
  const claimedAt = clock.now()
  try {
    const lease = await log.claim(turnId, options.owner, options.leaseMs)
    const orphan = new Orphan(log, lease, claimedAt, { ...options, clock })
    await orphan.endEvents()
    await orphan.endProcessed()
    return 'ended'
  } catch (error) {
    const refusal = error instanceof TurnstreamError ? REFUSALS[error.code] : undefined
    if (refusal === undefined) throw error
    return refusal
  }
}

class Orphan {
  readonly #log: TurnLog
  readonly #lease: Lease
  readonly #leaseMs: number
  readonly #clock: Clock
  #renewAt: number

  constructor(log: TurnLog, lease: Lease, claimedAt: number, options: Required<OrphanOptions>) {
    this.#log = log
    this.#lease = lease
    this.#leaseMs = options.leaseMs
    this.#clock = options.clock
    this.#renewAt = claimedAt + options.leaseMs / RENEWALS_PER_LEASE
  }

  async endEvents(): Promise<void> {
    const seq = this.#lease.next.events
    const data = JSON.stringify(await this.#ending(seq))
    try {
      await this.#log.append(this.#lease, 'events', [{ seq, data }], { seal: true })
    } catch (error) {
      // The owner, or whoever claimed the turn before, came as far as the end of this log.
      if (!hasCode(error, 'LOG_SEALED')) throw error
    }
  }

  async #ending(seq: number): Promise<StreamEvent> {
    const { runId } = this.#lease
    const first = seq > 1 ? await this.#firstEvent() : undefined
    const payload = first?.type === 'response_start' ? first.payload : undefined
    return {
      event_id: eventIdsOf(runId, seq - 1)(),
      timestamp: this.#clock.now(),
      trace_context: first?.trace_context ?? NO_TRACE,
      run_id: runId,
      type: 'response_error',
      payload: {
        type: 'response_error',
        response_id: payload?.response_id ?? runId,
        error: LOST,
      },
    }
  }

  async #firstEvent(): Promise<StreamEvent | undefined> {
    for await (const record of this.#tail()) if ('data' in record) return eventOf(record.data)
    return undefined
  }

  async endProcessed(): Promise<void> {
    const { next } = this.#lease
    const outputs = await this.#missingOutputs()
    const records = outputs.map((output, index): NewRecord => {
      return { seq: next.processed + index, data: JSON.stringify(output) }
    })
    for (let at = 0; at < records.length; at += MAX_APPEND_RECORDS) {
      const batch = records.slice(at, at + MAX_APPEND_RECORDS)
      await this.#keepLease()
      const seal = at + batch.length === records.length
      await this.#log.append(this.#lease, 'processed', batch, { seal })
    }
  }

  /** What `processed` lacks, its end last. */
  async #missingOutputs(): Promise<StreamOutput[]> {
    const { turnId } = this.#lease
    const turn = await this.#log.getTurn(turnId)
    if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
    const { threadId } = turn
    const { records } = await this.#log.snapshot(turnId)
    const stored = new Map(records.map(({ key = '', data }) => [key, data]))
    const derived = new DerivedOutputs(stored)
    const processor = new StreamProcessor({
      turnId,
      threadId,
      batchGradient: [],
      clock: TIMELESS,
      onEmit: (_message, output) => derived.take(output),
    })
    let isWhole = true
    for await (const record of this.#tail()) {
      await this.#keepLease()
      if ('data' in record) await replay(processor, eventOf(record.data), stored)
      else isWhole = false
    }
    const ending = derived.ending ?? { type: 'turn_error', turnId, threadId, error: UNREADABLE }
    // What is left of a trimmed log says less than what readers have seen.
    return isWhole ? [...derived.missing.values(), ending] : [ending]
  }

  #tail() {
    // Nothing to abort: the log is read only as far as it is known to go.
    return this.#log.tail(this.#lease.turnId, 'events', START, new AbortController().signal)
  }

  async #keepLease(): Promise<void> {
    const now = this.#clock.now()
    if (now < this.#renewAt) return
    await this.#log.renew(this.#lease, this.#leaseMs)
    this.#renewAt = now + this.#leaseMs / RENEWALS_PER_LEASE
  }
}

/** Undefined for what a live processor passes over too: what is malformed, or of an unknown type. */
function eventOf(data: string): StreamEvent | undefined {
  const event = parseJsonSafe(data)
  return isStreamEvent(event) ? event : undefined
}

async function replay(
  processor: StreamProcessor,
  event: StreamEvent | undefined,
  stored: ReadonlyMap<string, string>,
): Promise<void> {
  if (event === undefined || !isForProcessor(event)) return
  // An item that was cancelled before anybody saw it is never shown; the processor must know of those
  // that readers have seen.
  if (stored.has(cancelledItem(event) ?? '')) await processor.flush()
  await processor.processEvent(event)
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
