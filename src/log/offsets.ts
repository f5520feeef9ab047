import { TurnstreamError } from '../protocol/errors.ts'
import type { Resync } from './turn-log.ts'

/** The offset before the first record of a log. */
export const START = '0-0'

export interface Offset {
  readonly epoch: number
  readonly seq: number
}

// Fifteen digits are always a safe integer.
const OFFSET = /^(0|[1-9]\d{0,14})-(0|[1-9]\d{0,14})$/

export function formatOffset(epoch: number, seq: number): string {
  return `${epoch}-${seq}`
}

export function parseOffset(text: string): Offset {
  const [, epoch, seq] = OFFSET.exec(text) ?? []
  if (epoch === undefined || seq === undefined) {
    throw new TurnstreamError('CURSOR_INVALID', JSON.stringify(text.slice(0, 64)))
  }
  return { epoch: Number(epoch), seq: Number(seq) }
}

/** From which `seq` on an epoch writes. */
export interface EpochStart {
  readonly epoch: number
  readonly from: number
}

/** The offset of a record, from the epochs that wrote the log, oldest first. */
export function offsetOf(epochs: readonly EpochStart[], seq: number): string {
  return seq === 0 ? START : formatOffset(epochOf(epochs, seq), seq)
}

export function epochOf(epochs: readonly EpochStart[], seq: number): number {
  // From the newest: an epoch that was claimed and wrote nothing begins where the next one does.
  return epochs.findLast(({ from }) => from <= seq)?.epoch ?? 0
}

/** What is known of a log when a reader comes with a cursor. */
export interface LogExtent {
  /** The `seq` of the oldest record that is kept, 1 unless the log was trimmed. */
  readonly first: number
  readonly head: number
  readonly epochs: readonly EpochStart[]
}

/** After which `seq` a reader with this cursor goes on, or why it has to begin anew. */
export function resume(cursor: Offset, { first, head, epochs }: LogExtent): number | Resync {
  const { epoch, seq } = cursor
  if (seq > head || epoch !== epochOf(epochs, seq)) return { resync: 'foreign' }
  if (seq + 1 < first) return { resync: 'trimmed' }
  return seq
}
