import type * as log from '@turnstream/core/internal/log/turn-log'
import { ERROR_CODES, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import {
  checkEnvelope,
  eventLength,
  eventText,
} from '@turnstream/core/internal/protocol/event-codec'
import { isRecord, parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import { OutputEncoder, outputKey } from '@turnstream/core/internal/protocol/output-codec'
import type {
  ErrorObject,
  StreamEvent,
  TurnStatus,
  Usage,
} from '@turnstream/core/internal/protocol/stream-event'
import {
  normalizeEvent,
  streamEventFault,
} from '@turnstream/core/internal/protocol/stream-event-guard'
import type { StreamOutput } from '@turnstream/core/internal/protocol/stream-output'
import type { TurnValues } from './keyed-records.ts'
import { formatOffset } from './offsets.ts'

export const CHUNK_RECORDS = 256

// A turn holds at most 10 MB of text, and JSON may need six characters for each one.
export const MAX_RECORD_CHARS = 64 * 1024 * 1024

// Ids are part of store keys. LMDB keys hold up to 1,978 bytes; in Redis, braces would change the slot, and whitespace
// is hard to read.
export const ID_PATTERN = /^[^\s{}\p{Cc}\p{Cs}]{1,200}$/u

/** Throws RECORD_INVALID for a turn that no store can create. */
export function checkTurn(turn: log.NewTurn): void {
  for (const name of ['turnId', 'threadId', 'runId', 'replacedBy'] as const) {
    const id = turn[name]
    if (id !== undefined) checkId(name, id)
  }
  const { contentMs = 1 } = turn
  if (!Number.isSafeInteger(contentMs) || contentMs < 1) throw invalid(`contentMs is ${contentMs}`)
}

export function checkId(name: string, id: string): void {
  if (ID_PATTERN.test(id)) return
  throw invalid(`${name} must have 1 to 200 characters, without whitespace or braces`)
}

/** Text that UTF-8 cannot encode: with the `u` flag only a lone surrogate matches. */
const LONE_SURROGATE = /[\ud800-\udfff]/u

export function hasLoneSurrogate(text: string): boolean {
  return LONE_SURROGATE.test(text)
}

/** Throws RECORD_INVALID for a record that no log can store. */
export function checkEntry<Name extends log.LogName>(log: Name, entry: log.NewRecord<Name>): void {
  if (log === 'events') return checkEnvelope(entry)
  const { output, eventId, timestamp } = entry as log.NewOutput
  keyOf(output)
  if (typeof eventId !== 'string') throw invalid('eventId is not a string')
  if (!Number.isFinite(timestamp)) throw invalid('timestamp is not a finite number')
}

/** Throws RECORD_INVALID for a record that is too long. Its length is known once its text exists. */
export function checkLength(length: number): void {
  if (length > MAX_RECORD_CHARS) throw invalid(`a record has ${length} characters`)
}

export function checkResponse(log: log.LogName, response: string | undefined): void {
  if (response === undefined) return
  if (log !== 'events') throw invalid('a Response comes with the seal of events')
  const { length } = response
  if (length > MAX_RECORD_CHARS) throw invalid(`the Response has ${length} characters`)
  if (hasLoneSurrogate(response)) throw invalid('the Response has half a character')
}

/** Returns the size of the Response for the turn's record. */
export function responseSize(response: string | undefined): { responseBytes?: number } {
  return response === undefined ? {} : { responseBytes: Buffer.byteLength(response) }
}

export function invalid(detail: string): TurnstreamError {
  return new TurnstreamError('RECORD_INVALID', detail)
}

/** Returns the key of a snapshot: its item id, or the type of a turn event. */
function keyOf(output: StreamOutput): string {
  const key = isRecord(output) ? outputKey(output) : undefined
  if (typeof key !== 'string') throw invalid('the output names neither an item nor a type')
  return key
}

const DELTA_SIZE = 300

/** A record of `events`. Computes rarely used fields on demand. */
export class StoredEvent implements log.EventRecord {
  readonly event: StreamEvent
  readonly epoch: number
  readonly seq: number
  #data: string | undefined

  constructor(epoch: number, seq: number, event: StreamEvent) {
    this.event = event
    this.epoch = epoch
    this.seq = seq
  }

  get offset(): string {
    return formatOffset(this.epoch, this.seq)
  }

  get data(): string {
    this.#data ??= eventText(this.event)
    return this.#data
  }

  get eventId(): string {
    return this.event.event_id
  }

  get timestamp(): number {
    return this.event.timestamp
  }

  /** Approximate memory use in characters. */
  get size(): number {
    const { event } = this
    // For an event from another version only the envelope is certain.
    const text = event.type === 'item_delta' ? event.payload?.delta_content : undefined
    if (typeof text === 'string') return DELTA_SIZE + text.length
    return this.#data?.length ?? eventLength(event)
  }
}

interface StoredText {
  readonly data: string
  readonly key?: string
  readonly eventId: string
  readonly timestamp: number
}

/** A record of `processed`: a snapshot of this process, or the text of one written elsewhere. */
export class StoredOutput implements log.OutputRecord {
  readonly offset: string
  readonly data: string
  readonly key: string
  readonly eventId: string
  readonly timestamp: number
  /** Known once the record is in its view. */
  firstSeq = 0
  #output: StreamOutput | undefined

  private constructor(offset: string, stored: Required<StoredText>, output?: StreamOutput) {
    this.offset = offset
    this.data = stored.data
    this.key = stored.key
    this.eventId = stored.eventId
    this.timestamp = stored.timestamp
    this.#output = output
  }

  static of(offset: string, entry: log.NewOutput, encoder: OutputEncoder): StoredOutput {
    const { output, eventId, timestamp } = entry
    const data = encoder.encode(output)
    checkLength(data.length)
    return new StoredOutput(offset, { data, key: keyOf(output), eventId, timestamp }, output)
  }

  static read(offset: string, stored: StoredText): StoredOutput {
    const { data, key = keyInText(data), eventId, timestamp } = stored
    return new StoredOutput(offset, { data, key, eventId, timestamp })
  }

  get output(): StreamOutput {
    this.#output ??= parseJsonSafe(this.data) as StreamOutput
    return this.#output
  }
}

// The order in which the processor writes these fields. The content, which may be long, follows them.
const ITEM_ID_FIRST =
  /^\{"type":"(?:message|thinking|tool_call)","turnId":"[^"\\]*","threadId":"[^"\\]*","itemId":"([^"\\]*)"/

/** Returns the key of a stored snapshot, usually without parsing its text. */
function keyInText(data: string): string {
  return ITEM_ID_FIRST.exec(data)?.[1] ?? keyOf(parseJsonSafe(data) as StreamOutput)
}

export interface TurnFacts {
  readonly turnId: string
  readonly runId: string
  readonly threadId: string
  readonly ordinal: number
  readonly owner: string
  readonly createdAt: number
  readonly request?: string | undefined
  readonly replaces?: string | undefined
  readonly contentMs?: number | undefined
  readonly outcome?: Outcome | undefined
  readonly endedAt?: number | undefined
  readonly responseBytes?: number | undefined
  readonly cancelReason?: string | undefined
  readonly values?: TurnValues | undefined
}

/** A turn of a list whose record cannot be read. */
export function damagedTurn(
  place: Pick<log.ListedTurn, 'turnId' | 'threadId' | 'ordinal'>,
): log.ListedTurn {
  const { turnId } = place
  const error = { code: 'STORE_CORRUPT', message: `turn ${turnId} is damaged` }
  const unknown = { runId: turnId, owner: '', epoch: 0, createdAt: 0, sealed: true, expired: true }
  return { ...place, ...unknown, status: 'error', error, damaged: true }
}

export function turnRecord(
  facts: TurnFacts,
  { epoch, sealed, expired }: Pick<log.TurnRecord, 'epoch' | 'sealed' | 'expired'>,
): log.TurnRecord {
  const { turnId, runId, threadId, ordinal, owner, createdAt, outcome } = facts
  const { endedAt, responseBytes, cancelReason, request, replaces, contentMs } = facts
  return {
    turnId,
    runId,
    threadId,
    ordinal,
    owner,
    epoch,
    createdAt,
    status: 'in_progress',
    ...outcome,
    ...(endedAt !== undefined && { endedAt }),
    ...(responseBytes !== undefined && { responseBytes }),
    sealed,
    ...(cancelReason !== undefined && { cancelReason }),
    ...(request !== undefined && { request }),
    ...(replaces !== undefined && { replaces }),
    ...(contentMs !== undefined && { contentMs }),
    expired,
  }
}

/** How a turn ended, according to its last event. */
export interface Outcome {
  readonly status: TurnStatus
  readonly usage?: Usage
  readonly finishReason?: string
  readonly error?: ErrorObject
}

/** The outcome by the terminal event. With `isBrief`, without an error's message, which may quote the request. */
export function outcomeOf(last: StreamEvent, isBrief = false): Outcome {
  const event = normalizeEvent(last)
  const fault = streamEventFault(event)
  if (fault !== undefined) throw invalid(`the last event of a turn: ${fault}`)
  const { payload } = event as StreamEvent
  switch (payload.type) {
    case 'response_done': {
      const { status, usage, finish_reason: finishReason } = payload
      return { status, ...(usage && { usage }), ...(finishReason && { finishReason }) }
    }
    case 'response_error':
      return {
        status: 'error',
        error: isBrief ? withoutMessage(payload.error) : payload.error,
        ...(payload.usage && { usage: payload.usage }),
      }
    case 'turn_aborted_by_user':
      return { status: 'aborted', ...(payload.usage && { usage: payload.usage }) }
    default:
      throw invalid(`${payload.type} cannot end a turn`)
  }
}

function withoutMessage({ code }: ErrorObject): ErrorObject {
  const known = Object.entries(ERROR_CODES).find(([each]) => each === code)
  return { code, message: known?.[1].summary ?? 'The provider reported an error' }
}

/** An output that no later one of its batch supersedes. */
export interface NewestOutput {
  readonly entry: log.NewOutput
  readonly key: string
  readonly seq: number
  /** The record of the batch in which the key first appears. */
  readonly firstSeq: number
}

/** The last output of each key, in order of first appearance: others are never read. `first` is the first's seq. */
export function newestOutputs(
  outputs: readonly log.NewOutput[],
  first: number,
  from = 0,
  end = outputs.length,
): NewestOutput[] {
  const newest = new Map<string, NewestOutput>()
  for (let at = from; at < end; at++) {
    const entry = outputs[at] as log.NewOutput
    const key = keyOf(entry.output)
    const seq = first + at
    newest.set(key, { entry, key, seq, firstSeq: newest.get(key)?.firstSeq ?? seq })
  }
  return [...newest.values()]
}

interface Entry {
  readonly seq: number
  readonly record: log.OutputRecord
}

type Mutable = { -readonly [Name in keyof log.OutputRecord]: log.OutputRecord[Name] }

/** The newest record of every key, in order of first appearance. Readers take what changed since their position. */
export class ProcessedView {
  readonly encoder = new OutputEncoder()
  // A Map keeps the position of a key that is set again.
  readonly #entries = new Map<string, Entry>()
  #newest: Entry | undefined

  /** Returns the superseded record. `firstSeq` is for a key whose earlier records this view has not seen. */
  set(key: string, seq: number, record: Mutable, firstSeq = seq): log.OutputRecord | undefined {
    const superseded = this.#entries.get(key)?.record
    record.firstSeq = superseded?.firstSeq ?? firstSeq
    const entry = { seq, record }
    this.#entries.set(key, entry)
    if (seq >= (this.#newest?.seq ?? 0)) this.#newest = entry
    return superseded
  }

  firstSeq(key: string): number | undefined {
    return this.#entries.get(key)?.record.firstSeq
  }

  after(seq: number): log.OutputRecord[] {
    const newest = this.#newest
    if (newest === undefined || newest.seq <= seq) return []
    // A reader that keeps up, as most do, need not search all items.
    if (newest.seq === seq + 1) return [newest.record]
    const records: log.OutputRecord[] = []
    for (const entry of this.#entries.values()) if (entry.seq > seq) records.push(entry.record)
    return records
  }
}
