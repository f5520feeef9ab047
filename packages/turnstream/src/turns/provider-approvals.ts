import { onAbort } from '@turnstream/core/internal/async/on-abort'
import type { ApprovalRequest, OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type { ApprovalDecision, TurnApprovals } from './approvals.ts'

export type ApprovalRequestItem = Extract<OutputItem, { type: 'approval_request' }>

export interface ProviderApprovalsOptions {
  readonly approvals: TurnApprovals
  readonly onAnswer: (callId: string, approvalId: string, answer: ApprovalDecision) => Promise<void>
  readonly onError: (error: unknown) => void
}

/** Approvals of calls that a provider runs: it writes an `approval_request` and waits. The end of a round declines. */
export class ProviderApprovals {
  readonly #options: ProviderApprovalsOptions
  #round = new AbortController()
  #decisions = new Map<string, Decision>()

  constructor(options: ProviderApprovalsOptions) {
    this.#options = options
  }

  /** Starts a round, which ends with `signal` or `endRound`. Returns what the provider calls to wait for a decision. */
  beginRound(signal: AbortSignal): (id: string) => Promise<boolean> {
    this.endRound()
    const round = new AbortController()
    const decisions = new Map<string, Decision>()
    this.#round = round
    this.#decisions = decisions
    const stop = onAbort(signal, () => round.abort())
    onAbort(round.signal, () => {
      stop()
      for (const { settle } of decisions.values()) settle(false)
    })
    return (id) => (round.signal.aborted ? Promise.resolve(false) : this.#decisionOf(id).made)
  }

  endRound(): void {
    this.#round.abort()
  }

  /** Returns the request to write in place of the provider's; undefined if the turn has asked too often. */
  request(
    { approval_id: id, call_id }: ApprovalRequestItem,
    place: number,
  ): ApprovalRequest | undefined {
    const request = this.#options.approvals.requestForProvider(place)
    if (request !== undefined) void this.#decide(this.#decisionOf(id), call_id, request.id)
    return request
  }

  decline(id: string): void {
    this.#decisionOf(id).settle(false)
  }

  async #decide(decision: Decision, callId: string, approvalId: string): Promise<void> {
    const { approvals, onAnswer, onError } = this.#options
    const { signal } = this.#round
    try {
      const answer = await approvals.answerTo(approvalId, signal)
      if (answer === undefined || signal.aborted) return decision.settle(false)
      await onAnswer(callId, approvalId, answer)
      decision.settle(answer.approved)
    } catch (error) {
      onError(error)
      decision.settle(false)
    }
  }

  #decisionOf(id: string): Decision {
    const known = this.#decisions.get(id)
    if (known !== undefined) return known
    const decision = new Decision()
    this.#decisions.set(id, decision)
    return decision
  }
}

/** What was decided about one call. The first settlement counts. */
class Decision {
  settle: (approved: boolean) => void = () => {}
  readonly made = new Promise<boolean>((resolve) => {
    this.settle = resolve
  })
}
