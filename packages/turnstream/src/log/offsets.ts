import type { Resync } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'

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

export interface EpochStart {
  readonly epoch: number
  readonly from: number
}

/** Returns the offset of a record. `epochs` are those that wrote the log, oldest first. */
export function offsetOf(epochs: readonly EpochStart[], seq: number): string {
  return seq === 0 ? START : formatOffset(epochOf(epochs, seq), seq)
}

export function epochOf(epochs: readonly EpochStart[], seq: number): number {
  // Newest first: an epoch that wrote nothing starts where the next one does.
  return epochs.findLast(({ from }) => from <= seq)?.epoch ?? 0
}

/** Returns the `seq` after which a reader with this cursor continues, or why it must start over. */
export function resume(
  { epoch, seq }: Offset,
  { head, epochs }: { readonly head: number; readonly epochs: readonly EpochStart[] },
): number | Resync {
  if (seq > head || epoch !== epochOf(epochs, seq)) return { resync: 'foreign' }
  return seq
}
