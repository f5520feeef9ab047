import { TurnstreamError } from '../../protocol/errors.ts'
import { isRecord, parseJsonSafe } from '../../protocol/json.ts'
import type { Outcome } from '../records.ts'
import { isSealed, RECORDS_OUTLIVE_LOGS, type WriteState } from '../rules.ts'
import type { TurnRecord } from '../turn-log.ts'

/** What is known of a turn besides its logs. */
export interface TurnFacts {
  readonly turnId: string
  readonly runId: string
  readonly threadId: string
  /** Stands for the turn in the keys of its logs: short, and never given to another. */
  readonly number: number
  readonly ordinal: number
  readonly owner: string
  readonly createdAt: number
  readonly request?: string | undefined
  readonly outcome?: Outcome | undefined
  readonly endedAt?: number | undefined
  readonly responseBytes?: number | undefined
  readonly cancelReason?: string | undefined
  readonly expired: boolean
}

/** A turn as it is stored under its id. */
export interface StoredTurn extends TurnFacts {
  /** Of an open log the head is in its records, and that in here may be older. */
  readonly state: WriteState
}

/** All fields at once, so that all turns are alike for the engine: it is slow on objects that differ. */
export function newFacts(
  turn: Pick<TurnFacts, 'turnId' | 'runId' | 'threadId' | 'owner' | 'request'>,
  { number, ordinal, createdAt }: Pick<TurnFacts, 'number' | 'ordinal' | 'createdAt'>,
): TurnFacts {
  const { turnId, runId, threadId, owner, request } = turn
  return {
    turnId,
    runId,
    threadId,
    number,
    ordinal,
    owner,
    createdAt,
    request,
    outcome: undefined,
    endedAt: undefined,
    responseBytes: undefined,
    cancelReason: undefined,
    expired: false,
  }
}

export function formatTurn(turn: StoredTurn): string {
  return JSON.stringify(turn)
}

export function parseTurn(text: string): StoredTurn {
  const turn = parseJsonSafe(text)
  if (isRecord(turn) && typeof turn['number'] === 'number' && isRecord(turn['state'])) {
    return turn as unknown as StoredTurn
  }
  throw new TurnstreamError('STORE_CORRUPT', 'a stored turn cannot be read')
}

/** What is left of a turn so long after its end. The sweeper comes by later than that. */
export function remains(turn: StoredTurn, now: number, retentionMs: number) {
  if (!isSealed(turn.state) || turn.endedAt === undefined) return 'all'
  const age = now - turn.endedAt
  if (age >= retentionMs * RECORDS_OUTLIVE_LOGS) return 'nothing'
  return turn.expired || age >= retentionMs ? 'record' : 'all'
}

export function turnRecord(turn: StoredTurn, expired: boolean): TurnRecord {
  const { turnId, runId, threadId, ordinal, owner, createdAt, state, outcome } = turn
  const { endedAt, responseBytes, cancelReason, request } = turn
  return {
    turnId,
    runId,
    threadId,
    ordinal,
    owner,
    epoch: state.epoch,
    createdAt,
    status: 'in_progress',
    ...outcome,
    ...(endedAt !== undefined && { endedAt }),
    ...(responseBytes !== undefined && { responseBytes }),
    sealed: isSealed(state),
    ...(cancelReason !== undefined && { cancelReason }),
    ...(request !== undefined && { request }),
    expired,
  }
}
