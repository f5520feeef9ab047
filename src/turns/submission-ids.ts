import { createHash } from 'node:crypto'
import type { TurnRecord } from '../log/turn-log.ts'
import { isRecord } from '../protocol/json.ts'
import type { Submission, Submitted } from './turn-request.ts'

/** The ids of a turn: either of `turnId` and `runId` names both, and what is missing is made. */
export function idsOf(submission: Submission, generateId: () => string): Submitted {
  const turnId = submission.turnId ?? submission.runId ?? generateId()
  const runId = submission.runId ?? turnId
  return { turnId, runId, threadId: submission.threadId ?? generateId() }
}

/** Whether the caller named the turn, so that it may have been submitted before. */
export function isNamed({ turnId, runId }: Submission): boolean {
  return turnId !== undefined || runId !== undefined
}

/**
 * The same for the same body, however its JSON was ordered. Neither the ids of the turn, by which it is
 * found, nor the trace, which is new each time, are part of it.
 */
export function fingerprintOf(submission: Submission): string {
  const { threadId, model, providerId, agentId, history, input, settings } = submission
  const body = JSON.stringify(
    { threadId, model, providerId, agentId, history, input, settings },
    inOrder,
  )
  return createHash('sha256').update(body).digest('hex')
}

/** Whether a turn that exists is the one that is asked for. */
export function isSameTurn(turn: TurnRecord, ids: Submitted, fingerprint: string): boolean {
  return turn.turnId === ids.turnId && turn.runId === ids.runId && turn.request === fingerprint
}

/** A replacer: the fields of every object by name. */
function inOrder(_key: string, value: unknown): unknown {
  if (!isRecord(value)) return value
  const names = Object.keys(value).toSorted()
  return Object.fromEntries(names.map((name) => [name, value[name]]))
}
