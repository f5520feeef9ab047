import { isSliceOver, nextSlice } from '../async/time-slice.ts'
import { START } from '../log/offsets.ts'
import type { Tail, TurnLog, TurnRecord } from '../log/turn-log.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { parseJsonSafe } from '../protocol/json.ts'
import type { ReducedResponse } from '../protocol/response.ts'
import { isStreamEvent } from '../protocol/stream-event-guard.ts'
import { ResponseReducer } from '../reducer/response-reducer.ts'
import { withTurnIds } from '../turns/turn-response.ts'

/** A turn's Response as JSON, in UTF-8. */
type ResponseJson = Uint8Array<ArrayBuffer>

const MAX_CACHED_BYTES = 32 * 1024 * 1024

/** Of which turn a Response is: ids are used again after a turn was deleted. */
interface CachedRun {
  readonly turn: TurnRecord
  readonly json: ResponseJson
}

interface Reading {
  readonly turn: TurnRecord
  readonly json: Promise<ResponseJson>
  /** For those who came when the log had been read in part already. */
  next?: Promise<ResponseJson>
}

/**
 * Reads turns as Responses. Reads of one turn at the same time share the work, and the Responses of sealed
 * turns are cached, those read last, up to a number of bytes.
 */
export class RunReader {
  readonly #maxBytes: number
  /** The one that was read last is the last. */
  readonly #cached = new Map<string, CachedRun>()
  readonly #readings = new Map<string, Reading>()
  #bytes = 0

  constructor(maxBytes = MAX_CACHED_BYTES) {
    this.#maxBytes = maxBytes
  }

  /** How many bytes are cached. */
  get cachedBytes(): number {
    return this.#bytes
  }

  /** TURN_EXPIRED. */
  read(log: TurnLog, tenant: string, turn: TurnRecord): Promise<ResponseJson> {
    if (turn.expired) return Promise.reject(new TurnstreamError('TURN_EXPIRED', turn.turnId))
    // No name of a tenant has a space in it.
    const key = `${tenant} ${turn.turnId}`
    const cached = this.#take(key, turn)
    return cached === undefined ? this.#shared(log, key, turn) : Promise.resolve(cached)
  }

  #shared(log: TurnLog, key: string, turn: TurnRecord): Promise<ResponseJson> {
    const reading = this.#readings.get(key)
    if (reading === undefined || !isSameTurn(reading.turn, turn)) return this.#start(log, key, turn)
    if (reading.turn.sealed) return reading.json
    const again = () => this.#shared(log, key, turn)
    reading.next ??= reading.json.then(again, again)
    return reading.next
  }

  #start(log: TurnLog, key: string, turn: TurnRecord): Promise<ResponseJson> {
    const reading: Reading = { turn, json: this.#read(log, key, turn) }
    this.#readings.set(key, reading)
    const forget = () => {
      if (this.#readings.get(key) === reading) this.#readings.delete(key)
    }
    reading.json.then(forget, forget)
    return reading.json
  }

  async #read(log: TurnLog, key: string, turn: TurnRecord): Promise<ResponseJson> {
    const stored = turn.sealed ? await log.getResponse(turn.turnId) : undefined
    // Turns of earlier versions have none.
    const json =
      stored === undefined ? await encodeResponse(await reducedRun(log, turn)) : Buffer.from(stored)
    if (turn.sealed) this.#keep(key, { turn, json })
    return json
  }

  #take(key: string, turn: TurnRecord): ResponseJson | undefined {
    const cached = this.#cached.get(key)
    if (cached === undefined) return undefined
    this.#drop(key, cached)
    if (!isSameTurn(cached.turn, turn)) return undefined
    this.#keep(key, cached)
    return cached.json
  }

  #keep(key: string, run: CachedRun): void {
    if (run.json.byteLength > this.#maxBytes) return
    this.#cached.set(key, run)
    this.#bytes += run.json.byteLength
    for (const [oldest, each] of this.#cached) {
      if (this.#bytes <= this.#maxBytes) return
      this.#drop(oldest, each)
    }
  }

  #drop(key: string, { json }: CachedRun): void {
    this.#cached.delete(key)
    this.#bytes -= json.byteLength
  }
}

function isSameTurn(one: TurnRecord, other: TurnRecord): boolean {
  return (
    one.createdAt === other.createdAt &&
    one.endedAt === other.endedAt &&
    one.epoch === other.epoch &&
    one.threadId === other.threadId &&
    one.ordinal === other.ordinal
  )
}

/** What a turn has come to, by the events that its log holds now. */
async function reducedRun(log: TurnLog, turn: TurnRecord): Promise<ReducedResponse> {
  const stop = new AbortController()
  const tail = log.tail(turn.turnId, 'events', START, stop.signal)
  void tail.caughtUp.then(() => stop.abort())
  return reduced(tail, turn)
}

/** What a turn has come to at its end, or when `signal` aborts. */
export function followRun(
  log: TurnLog,
  turn: TurnRecord,
  signal: AbortSignal,
): Promise<ReducedResponse> {
  return reduced(log.tail(turn.turnId, 'events', START, signal), turn)
}

async function reduced(tail: Tail, turn: TurnRecord): Promise<ReducedResponse> {
  const reducer = new ResponseReducer()
  for await (const record of tail) {
    if (isSliceOver()) await nextSlice()
    const event = 'data' in record ? parseJsonSafe(record.data) : undefined
    if (isStreamEvent(event)) reducer.apply(event)
  }
  return withTurnIds(reducer.response, turn)
}

/** Encodes one item at a time, because a Response may have thousands. */
async function encodeResponse({ output_items, ...head }: ReducedResponse): Promise<ResponseJson> {
  const parts = [Buffer.from(`${JSON.stringify(head).slice(0, -1)},"output_items":[`)]
  for (const [index, item] of output_items.entries()) {
    if (isSliceOver()) await nextSlice()
    parts.push(Buffer.from(`${index === 0 ? '' : ','}${JSON.stringify(item)}`))
  }
  return Buffer.concat([...parts, Buffer.from(']}')])
}
