import { hasCode, TurnstreamError } from '../protocol/errors.ts'
import type { TurnRecord } from './turn-log.ts'

/** TURN_EXISTS, with what the store knows of the turn that exists. */
export class TurnExistsError extends TurnstreamError {
  override readonly name = 'TurnExistsError'
  readonly turn: TurnRecord

  constructor(turn: TurnRecord) {
    super('TURN_EXISTS', turn.turnId)
    this.turn = turn
  }
}

/** What an owner is told of a turn that was deleted: LEASE_LOST, because of TURN_DELETED. */
export function turnGone(turnId: string): TurnstreamError {
  const cause = new TurnstreamError('TURN_DELETED', turnId)
  return new TurnstreamError('LEASE_LOST', `turn ${turnId} is gone`, { cause })
}

/** Whether a lease was lost because its turn was deleted. */
export function isTurnGone(error: unknown): boolean {
  return hasCode(error, 'LEASE_LOST') && hasCode(error.cause, 'TURN_DELETED')
}
