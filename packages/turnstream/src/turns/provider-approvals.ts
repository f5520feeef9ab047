import { Deferred } from '@turnstream/core/internal/async/deferred'
import { onAbort } from '@turnstream/core/internal/async/on-abort'
import type { ApprovalRequest, OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type { TurnApprovals } from './approvals.ts'

export type ApprovalRequestItem = Extract<OutputItem, { type: 'approval_request' }>

/** Approvals of calls that a provider runs: it writes an `approval_request` and waits. The end of a round declines. */
export class ProviderApprovals {
  readonly #approvals: TurnApprovals
  readonly #onError: (error: unknown) => void
  #round = new AbortController()
  #decisions = new Map<string, Deferred<boolean>>()

  constructor(approvals: TurnApprovals, onError: (error: unknown) => void) {
    this.#approvals = approvals
    this.#onError = onError
  }

  /** Starts a round, which ends with `signal` or `endRound`. Returns what the provider calls to wait for a decision. */
  beginRound(signal: AbortSignal): (id: string) => Promise<boolean> {
    this.endRound()
    const round = new AbortController()
    const decisions = new Map<string, Deferred<boolean>>()
    this.#round = round
    this.#decisions = decisions
    const stop = onAbort(signal, () => round.abort())
    onAbort(round.signal, () => {
      stop()
      for (const { resolve } of decisions.values()) resolve(false)
    })
    return (id) => (round.signal.aborted ? Promise.resolve(false) : this.#decisionOf(id).promise)
  }

  endRound(): void {
    this.#round.abort()
  }

  /** Returns the request to write in place of the provider's; undefined if the turn has asked too often. */
  request(
    { approval_id: id, call_id }: ApprovalRequestItem,
    place: number,
  ): ApprovalRequest | undefined {
    const request = this.#approvals.requestForProvider(place)
    if (request !== undefined) void this.#decide(this.#decisionOf(id), call_id, request.id)
    return request
  }

  decline(id: string): void {
    this.#decisionOf(id).resolve(false)
  }

  async #decide({ resolve }: Deferred<boolean>, callId: string, approvalId: string): Promise<void> {
    try {
      const answer = await this.#approvals.answerTo(callId, approvalId, this.#round.signal)
      resolve(answer?.approved ?? false)
    } catch (error) {
      this.#onError(error)
      resolve(false)
    }
  }

  /** What was decided about one call. */
  #decisionOf(id: string): Deferred<boolean> {
    const decision = this.#decisions.get(id) ?? new Deferred()
    this.#decisions.set(id, decision)
    return decision
  }
}
