import { TurnstreamError } from '../protocol/errors.ts'
import { eventIdsOf } from '../protocol/ids.ts'
import { isRecord, parseJsonSafe } from '../protocol/json.ts'
import { normalizeEvent } from '../protocol/lenient-event.ts'
import type { ErrorObject, StreamEvent, TurnStatus } from '../protocol/stream-event.ts'
import { streamEventFault } from '../protocol/stream-event-guard.ts'
import type { Usage } from '../protocol/usage.ts'
import type { AppendOptions, LogName, NewRecord, NewTurn } from './turn-log.ts'

/** As large as an append may be, and as a chunk of `events` becomes. */
export const MAX_APPEND_RECORDS = 256

// A turn holds 10 MB of text at most; in JSON every character of it may take six.
export const MAX_RECORD_CHARS = 64 * 1024 * 1024

// Ids stand in the keys of the stores: LMDB takes keys up to 1,978 bytes, and in Redis braces and white
// space would change the slot or the look of a key.
export const ID_PATTERN = /^[^\s{}\p{Cc}\p{Cs}]{1,200}$/u

export function checkIds(turn: NewTurn): void {
  checkId('turnId', turn.turnId)
  checkId('threadId', turn.threadId)
  if (turn.runId !== undefined) checkId('runId', turn.runId)
}

export function checkId(name: string, id: string): void {
  if (ID_PATTERN.test(id)) return
  const detail = `${name} must have 1 to 200 characters, without white space and braces`
  throw new TurnstreamError('RECORD_INVALID', detail)
}

export function checkRecords(records: readonly NewRecord[], seal: boolean): void {
  if (records.length > MAX_APPEND_RECORDS) {
    throw invalid(`${records.length} records in one append, and ${MAX_APPEND_RECORDS} are allowed`)
  }
  if (seal && records.length === 0) throw invalid('a seal comes with the last record')
  let before: number | undefined
  for (const { seq, data } of records) {
    if (!Number.isSafeInteger(seq) || seq < 1) throw invalid(`seq is ${seq}`)
    if (data.length > MAX_RECORD_CHARS) throw invalid(`record ${seq} has ${data.length} characters`)
    if (before !== undefined && seq !== before + 1) {
      throw new TurnstreamError('LOG_SEQUENCE_GAP', `${seq} comes after ${before}`)
    }
    before = seq
  }
}

/** Text that UTF-8 cannot hold: with `u` only a surrogate without its other half matches. */
export const LONE_SURROGATE = /[\ud800-\udfff]/u

export function checkResponse(log: LogName, { seal, response }: AppendOptions): void {
  if (response === undefined) return
  if (log !== 'events' || seal !== true) throw invalid('a Response comes with the seal of events')
  const { length } = response
  if (length > MAX_RECORD_CHARS) throw invalid(`the Response has ${length} characters`)
  if (LONE_SURROGATE.test(response)) throw invalid('the Response has half a character')
}

/** What the record of a turn says of its Response. */
export function responseSize(response: string | undefined): { responseBytes?: number } {
  return response === undefined ? {} : { responseBytes: Buffer.byteLength(response) }
}

function invalid(detail: string): TurnstreamError {
  return new TurnstreamError('RECORD_INVALID', detail)
}

// The order in which the processor writes these fields; the content, which may be long, comes after them.
const ITEM_ID_FIRST =
  /^\{"type":"(?:message|thinking|tool_call)","turnId":"[^"\\]*","threadId":"[^"\\]*","itemId":"([^"\\]*)"/

/** What a snapshot is a snapshot of: the item, or the type of a turn's event. */
export function keyOfOutput(data: string): string {
  const itemId = ITEM_ID_FIRST.exec(data)?.[1]
  if (itemId !== undefined) return itemId
  const output = parseJsonSafe(data)
  const key = isRecord(output) ? (output['itemId'] ?? output['type']) : undefined
  if (typeof key !== 'string') throw invalid('the output names neither an item nor a type')
  return key
}

/** The envelope of a record of `processed`, made where the caller gave none. */
export function outputEnvelope(turnId: string, record: NewRecord, now: number) {
  const eventId = record.eventId ?? eventIdsOf(`${turnId}/processed`, record.seq - 1)()
  return { eventId, timestamp: record.timestamp ?? now }
}

/** How a turn ended, as its last event says. */
export interface Outcome {
  readonly status: TurnStatus
  readonly usage?: Usage
  readonly finishReason?: string
  readonly error?: ErrorObject
}

/** The last record of `events` is one of the three terminal events. */
export function outcomeOf(data: string): Outcome {
  const event = normalizeEvent(parseJsonSafe(data))
  const fault = streamEventFault(event)
  if (fault !== undefined) throw invalid(`the last event of a turn: ${fault}`)
  const { payload } = event as StreamEvent
  switch (payload.type) {
    case 'response_done': {
      const { status, usage, finish_reason } = payload
      return {
        status,
        ...(usage && { usage }),
        ...(finish_reason && { finishReason: finish_reason }),
      }
    }
    case 'response_error':
      return {
        status: 'error',
        error: payload.error,
        ...(payload.usage && { usage: payload.usage }),
      }
    case 'turn_aborted_by_user':
      return { status: 'aborted', ...(payload.usage && { usage: payload.usage }) }
    default:
      throw invalid(`a turn does not end with ${payload.type}`)
  }
}
