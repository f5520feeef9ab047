import { CallSlots } from '@turnstream/core/internal/async/call-slots'
import { monotonicNow } from '@turnstream/core/internal/async/clock'
import type { Lease } from '@turnstream/core/internal/log/turn-log'
import type { FunctionCall } from '@turnstream/core/internal/protocol/output-item'
import { type OnAnswer, TurnApprovals } from './approvals.ts'
import { runTool } from './tools.ts'
import type { ToolAnswer } from './transcript.ts'
import type { TurnFacts } from './turn-observer.ts'
import type { TurnServices } from './turn-task.ts'

export interface ServerCallsOptions
  extends Pick<TurnServices, 'log' | 'tools' | 'caps' | 'clock' | 'observer'> {
  readonly lease: Lease
  readonly facts: TurnFacts
  readonly onAnswer: OnAnswer
  readonly onError: (error: unknown) => void
}

/** The calls of a turn that this server runs: approved first, and a few at a time. */
export class ServerCalls {
  readonly #options: ServerCallsOptions
  readonly approvals: TurnApprovals
  /** A call that waits for approval takes none. */
  readonly #slots: CallSlots

  constructor(options: ServerCallsOptions) {
    const { maxApprovalTimeMs, maxParallelTools } = options.caps
    this.#options = options
    this.approvals = new TurnApprovals({
      ...options,
      tenant: options.facts.tenant,
      limitMs: maxApprovalTimeMs,
    })
    this.#slots = new CallSlots(maxParallelTools)
  }

  /** Returns the result of a call. Undefined when `signal` aborts: the turn was stopped. */
  async run(call: FunctionCall, signal: AbortSignal): Promise<ToolAnswer | undefined> {
    const { tools, facts, clock, observer, onError } = this.#options
    const { turnId, threadId, tenant } = facts
    const tool = tools.get(call.name)
    if (tool === undefined) return undefined
    const refusal = await this.approvals.refusal(call, signal)
    if (signal.aborted || refusal !== undefined) return refusal
    const since = monotonicNow(clock)
    const context = { turnId, threadId, tenant, clock, slots: this.#slots, signal, onError }
    const answer = await runTool(tool, call, context)
    const status = answer === undefined ? 'stopped' : answer.success ? 'succeeded' : 'failed'
    const durationMs = monotonicNow(clock) - since
    observer.toolEnded?.(facts, { tool: tool.name, status, durationMs })
    return answer
  }
}
