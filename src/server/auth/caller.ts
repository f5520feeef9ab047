import { DEFAULT_TENANT } from '../../protocol/tenant.ts'

/** The one thing that a stream token lets its bearer read. */
export type StreamGrant = { readonly turnId: string } | { readonly threadId: string }

/** Who makes a request. */
export interface Caller {
  readonly tenant: string
  /** The name of the key, by which is counted. Unique per tenant. */
  readonly key: string
  /** What tells the key from another that takes its name later; missing where there are no keys. */
  readonly fingerprint?: string
  /** For who came with a stream token, and not with the key itself. */
  readonly grant?: StreamGrant
}

/** Everybody, as long as there are no keys. */
export const ANYBODY: Caller = { tenant: DEFAULT_TENANT, key: 'anybody' }
