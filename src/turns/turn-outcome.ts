import type { Terminal } from './turn-ending.ts'
import type { TurnOutcome } from './turn-observer.ts'

interface TurnTimes {
  readonly now: number
  /** When the turn was submitted. */
  readonly since: number
  /** When it was asked to stop, if it was. */
  readonly cancelledAt: number | undefined
}

/** The end of a turn for those who count; a turn that got none was lost or deleted. */
export function outcomeOf(
  end: Terminal | undefined,
  times: TurnTimes,
  isDeleted = false,
): TurnOutcome {
  const { now, since, cancelledAt } = times
  const durationMs = now - since
  if (end === undefined) return { status: isDeleted ? 'deleted' : 'lost', durationMs }
  const known = { durationMs, ...(end.usage && { usage: end.usage }) }
  switch (end.type) {
    case 'response_error':
      return { ...known, status: 'failed', code: end.error.code }
    case 'turn_aborted_by_user':
      return {
        ...known,
        status: 'aborted',
        ...(cancelledAt !== undefined && { cancelMs: now - cancelledAt }),
      }
    case 'response_done':
      return { ...known, status: 'completed' }
  }
}
