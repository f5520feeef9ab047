import type { TurnRecord } from '../../log/turn-log.ts'
import { DEFAULT_TENANT } from '../../protocol/tenant.ts'

/** What a stream token lets its bearer read. */
export type StreamGrant = { readonly turnId: string } | { readonly threadId: string }

/** Who makes a request. */
export interface Caller {
  readonly tenant: string
  /** The name of the key, to which the limits apply. Unique per tenant. */
  readonly key: string
  /** Tells the key from a later one with the same name; missing where there are no keys. */
  readonly fingerprint?: string
  /** Only with a stream token. */
  readonly grant?: StreamGrant
}

/** The caller where there are no keys. */
export const ANYBODY: Caller = { tenant: DEFAULT_TENANT, key: 'anybody' }

/** A key may read every turn of its tenant; a token what it was issued for. */
export function mayReadTurn({ grant }: Caller, turn: TurnRecord): boolean {
  if (grant === undefined) return true
  return 'turnId' in grant ? grant.turnId === turn.turnId : grant.threadId === turn.threadId
}

/** The same for a whole thread. */
export function mayReadThread({ grant }: Caller, threadId: string): boolean {
  if (grant === undefined) return true
  return 'threadId' in grant && grant.threadId === threadId
}
