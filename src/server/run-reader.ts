import { isSliceOver, nextSlice } from '../async/time-slice.ts'
import { START } from '../log/offsets.ts'
import type { EventRecord, Tail, TurnLog, TurnRecord } from '../log/turn-log.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import type { ReducedResponse } from '../protocol/response.ts'
import { isStreamEvent } from '../protocol/stream-event-guard.ts'
import { ResponseReducer } from '../reducer/reduce.ts'
import { withTurnIds } from '../turns/turn-response.ts'
import { encodeList } from './json-response.ts'

/** A turn's Response as JSON, in UTF-8. */
type ResponseJson = Uint8Array<ArrayBuffer>

const MAX_CACHED_BYTES = 32 * 1024 * 1024

interface Reading {
  readonly json: Promise<ResponseJson>
  /** For those who came when part of the log had been read. */
  next?: Promise<ResponseJson>
}

/** Reads turns as Responses. Concurrent reads of a turn share the work; Responses of sealed turns are cached. */
export class RunReader {
  readonly #maxBytes: number
  /** The most recently read comes last. */
  readonly #cached = new Map<string, ResponseJson>()
  readonly #readings = new Map<string, Reading>()
  #bytes = 0

  constructor(maxBytes = MAX_CACHED_BYTES) {
    this.#maxBytes = maxBytes
  }

  get cachedBytes(): number {
    return this.#bytes
  }

  /** TURN_EXPIRED. */
  read(log: TurnLog, tenant: string, turn: TurnRecord): Promise<ResponseJson> {
    const { turnId, threadId, ordinal, createdAt, endedAt, epoch } = turn
    if (turn.expired) return Promise.reject(new TurnstreamError('TURN_EXPIRED', turnId))
    // The id of a deleted turn may be used again.
    const key = JSON.stringify([tenant, turnId, threadId, ordinal, createdAt, endedAt, epoch])
    const cached = this.#cached.get(key)
    if (cached === undefined) return this.#readShared(log, key, turn)
    this.#cached.delete(key)
    this.#cached.set(key, cached)
    return Promise.resolve(cached)
  }

  #readShared(log: TurnLog, key: string, turn: TurnRecord): Promise<ResponseJson> {
    const reading = this.#readings.get(key)
    if (reading === undefined) {
      const json = this.#read(log, key, turn).finally(() => this.#readings.delete(key))
      this.#readings.set(key, { json })
      return json
    }
    if (turn.sealed) return reading.json
    const again = () => this.#readShared(log, key, turn)
    reading.next ??= reading.json.then(again, again)
    return reading.next
  }

  async #read(log: TurnLog, key: string, turn: TurnRecord): Promise<ResponseJson> {
    if (!turn.sealed) return encodeRun(log, turn)
    // Turns of earlier versions have no stored Response.
    const stored = await log.getResponse(turn.turnId)
    const json = stored === undefined ? await encodeRun(log, turn) : Buffer.from(stored)
    this.#cache(key, json)
    return json
  }

  #cache(key: string, json: ResponseJson): void {
    if (json.byteLength > this.#maxBytes) return
    this.#cached.set(key, json)
    this.#bytes += json.byteLength
    for (const [oldest, { byteLength }] of this.#cached) {
      if (this.#bytes <= this.#maxBytes) return
      this.#cached.delete(oldest)
      this.#bytes -= byteLength
    }
  }
}

/** The Response of the events that the log holds now. */
async function encodeRun(log: TurnLog, turn: TurnRecord): Promise<ResponseJson> {
  const stop = new AbortController()
  const tail = log.tail(turn.turnId, 'events', START, stop.signal)
  void tail.caughtUp.then(() => stop.abort())
  const { output_items: items, ...head } = await reduced(tail, turn)
  return Buffer.concat(
    await encodeList(head, 'output_items', items, (item) => JSON.stringify(item)),
  )
}

/** The Response of a turn at its end, or when `signal` aborts. */
export function followRun(
  log: TurnLog,
  turn: TurnRecord,
  signal: AbortSignal,
): Promise<ReducedResponse> {
  return reduced(log.tail(turn.turnId, 'events', START, signal), turn)
}

async function reduced(tail: Tail<EventRecord>, turn: TurnRecord): Promise<ReducedResponse> {
  const reducer = new ResponseReducer()
  for await (const record of tail) {
    if (isSliceOver()) await nextSlice()
    if ('event' in record && isStreamEvent(record.event)) reducer.apply(record.event)
  }
  return withTurnIds(reducer.response, turn)
}
