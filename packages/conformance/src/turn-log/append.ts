import type {
  Lease,
  LogName,
  LogWriter,
  NewOutput,
  NewRecord,
  TurnLog,
} from '@turnstream/core/internal/log/turn-log'
import { eventIdsOf } from '@turnstream/core/internal/protocol/ids'
import { parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import type { StreamOutput } from '@turnstream/core/internal/protocol/stream-output'

/** A record as text, with its position in the log. */
export interface TextRecord {
  readonly seq: number
  /** `events`: the JSON of a StreamEvent. `processed`: the JSON of a StreamOutput. */
  readonly data: string
  /** `processed` only; generated when missing. */
  readonly eventId?: string
  readonly timestamp?: number
}

export interface AppendOptions {
  readonly seal?: boolean
  readonly response?: string | undefined
}

interface Open {
  readonly writer: LogWriter<StreamEvent | NewOutput>
  next: number
}

const writers = new WeakMap<object, Map<string, Open>>()

/**
 * Writes consecutive records, with one writer per lease and log. Returns the offset of the last one once all are
 * stored.
 */
export async function appendTo(
  log: Pick<TurnLog, 'open'>,
  lease: Lease,
  name: LogName,
  records: readonly TextRecord[],
  { seal = false, response }: AppendOptions = {},
): Promise<string> {
  const first = records[0]?.seq ?? lease.next[name]
  const open = writerOf(log, lease, name, first)
  const { writer } = open
  try {
    for (const [index, record] of records.entries()) {
      const entry = entryOf(name, lease.turnId, record)
      const isLast = index === records.length - 1
      if (isLast && seal) await writer.seal(entry, response)
      else writer.write(entry)
      open.next += 1
    }
    if (!seal) await writer.flush()
  } catch (error) {
    open.next = -1
    throw error
  }
  // Records after the last one are for the store to reject.
  if (seal) open.next = -1
  return `${lease.epoch}-${records.at(-1)?.seq ?? first - 1}`
}

function writerOf(log: Pick<TurnLog, 'open'>, lease: Lease, name: LogName, first: number): Open {
  const { turnId, creation, epoch } = lease
  const key = `${name} ${turnId} ${creation} ${epoch}`
  const known = writers.get(log) ?? new Map<string, Open>()
  writers.set(log, known)
  const open = known.get(key)
  if (open?.next === first) return open
  const options = { next: first, retryForMs: 0 }
  const writer = log.open(lease, name, options)
  const made = { writer, next: first }
  known.set(key, made)
  return made
}

export function entryOf(name: LogName, turnId: string, record: TextRecord): NewRecord {
  const { seq, data, timestamp = 1_700_000_000_000 + seq } = record
  const value = parseJsonSafe(data)
  if (name === 'events') return value as StreamEvent
  const { eventId = eventIdsOf(`${turnId}/processed`, seq - 1)() } = record
  return { output: value as StreamOutput, eventId, timestamp }
}
