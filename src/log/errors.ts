import { TurnstreamError } from '../protocol/errors.ts'
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
