/** Ids of the response. */
export interface RunContext {
  runId: string
  turnId: string
  threadId: string
  /** Tenant of the turn: turn ids are unique within one only. */
  tenant?: string
  /** Which call of the turn this is, from 1: one per round of the tool loop. 1 by default. */
  round?: number
  /** Generates the ids of the response's items. By default they are numbered from 1. */
  nextItemId?: () => string
  /** Maximum characters of one tool call's arguments. The provider's own limit by default. */
  maxArgumentChars?: number
  /** Called for each retry. */
  onRetry?: () => void
  /** Called for each type of vendor event that is not known, once per call. */
  onUnknown?: (type: string) => void
  /**
   * Waits until a client has answered an `approval_request` item of the stream, under its `approval_id`. Returns false
   * when no answer arrives in time or the turn ends. Missing if approvals are not supported.
   */
  isApproved?: (approvalId: string) => Promise<boolean>
}
