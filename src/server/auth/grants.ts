import type { TurnRecord } from '../../log/turn-log.ts'
import type { Caller } from './caller.ts'

/** Whether a caller may read a turn of its tenant: with a key any of them, with a token what it is for. */
export function mayReadTurn({ grant }: Caller, turn: TurnRecord): boolean {
  if (grant === undefined) return true
  return 'turnId' in grant ? grant.turnId === turn.turnId : grant.threadId === turn.threadId
}

/** The same for everything that a thread has and will have. */
export function mayReadThread({ grant }: Caller, threadId: string): boolean {
  if (grant === undefined) return true
  return 'threadId' in grant && grant.threadId === threadId
}
