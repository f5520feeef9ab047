/** When text that grows is shown. */
import type { ItemSnapshot } from '../protocol/stream-output.ts'
import type { ContentBuffer } from './content-buffer.ts'
import type { Effect, Emission, TurnState } from './turn-state.ts'

export const NOTHING: readonly Effect[] = []

export function emit(emission: Emission): Effect {
  return { do: 'emit', emission }
}

/** Offers the whole text of an item and moves its place in the gradient to where it now stands. */
export function showGrowth(turn: TurnState, buffer: ContentBuffer): Effect {
  const tokens = buffer.getTokenCount()
  while (isPastThreshold(buffer, tokens)) {
    buffer.advanceBatchIndex()
    buffer.threshold = turn.rules.gradient.threshold(buffer.getBatchIndex())
  }
  return emit({ kind: 'growth', buffer, content: buffer.offer() })
}

/** Exactly at the threshold is not past it. An estimate that is no number is past nothing. */
export function isPastThreshold(buffer: ContentBuffer, tokens: number): boolean {
  return tokens > buffer.threshold && tokens !== Infinity
}

/** Says a last word about an item, in place of those that did not get through. */
export function conclude(
  turn: TurnState,
  kind: 'final' | 'cancellation',
  buffer: ContentBuffer,
  output: ItemSnapshot,
): Effect {
  buffer.revision += 1
  turn.unsent.delete(buffer.itemId)
  return emit({ kind, buffer, revision: buffer.revision, output })
}

/** Sets the timer when this item's text is due before everything that waits already. */
export function wakeFor(turn: TurnState, buffer: ContentBuffer): readonly Effect[] {
  const deadline = deadlineOf(turn, buffer)
  if (deadline >= turn.wakeAt) return NOTHING
  turn.wakeAt = deadline
  return [{ do: 'wake', at: deadline }]
}

function deadlineOf(turn: TurnState, buffer: ContentBuffer): number {
  return buffer.deadline(turn.rules.batchTimeoutMs, turn.rules.maxLatencyMs)
}

/** Shows what has waited long enough and sets the timer for what has not. */
export function ringTimer(turn: TurnState, now: number): readonly Effect[] {
  if (turn.ending !== undefined) return NOTHING
  const effects: Effect[] = []
  turn.wakeAt = Infinity
  for (const buffer of turn.items.values()) {
    const deadline = deadlineOf(turn, buffer)
    if (deadline <= now) effects.push(showGrowth(turn, buffer))
    else turn.wakeAt = Math.min(turn.wakeAt, deadline)
  }
  if (turn.wakeAt !== Infinity) effects.push({ do: 'wake', at: turn.wakeAt })
  return effects
}

/** Stops the timer when nothing is left that it could show. */
export function restTimer(turn: TurnState): readonly Effect[] {
  if (turn.wakeAt === Infinity) return NOTHING
  for (const buffer of turn.items.values()) {
    if (deadlineOf(turn, buffer) !== Infinity) return NOTHING
  }
  turn.wakeAt = Infinity
  return [{ do: 'sleep' }]
}

/** What the sink has not seen: last snapshots that it did not take, and text of open items. */
export function showUnshown(turn: TurnState): Effect[] {
  const effects = [...turn.unsent.values()].map(emit)
  turn.unsent.clear()
  for (const buffer of turn.items.values()) {
    if (!buffer.isHeld() && buffer.hasUnshownContent()) effects.push(showGrowth(turn, buffer))
  }
  return effects
}
