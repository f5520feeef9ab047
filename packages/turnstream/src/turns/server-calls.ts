import { CallSlots } from '@turnstream/core/internal/async/call-slots'
import { monotonicNow } from '@turnstream/core/internal/async/clock'
import { onAbort, untilAborted } from '@turnstream/core/internal/async/on-abort'
import type { Lease } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { FunctionCall } from '@turnstream/core/internal/protocol/output-item'
import { type OnAnswer, TurnApprovals } from './approvals.ts'
import { decodeArguments, failedAnswer, type Tool } from './tools.ts'
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

const TIMEOUT_MS = 60_000

// The same bound as for arguments. Models can read far less.
const MAX_OUTPUT_CHARS = 1_000_000

/** The calls of a turn that this server runs: approved first, and a few at a time. */
export class ServerCalls {
  readonly #options: ServerCallsOptions
  readonly approvals: TurnApprovals
  /** A call that waits for approval takes none. */
  readonly #slots: CallSlots

  constructor(options: ServerCallsOptions) {
    this.#options = options
    this.approvals = new TurnApprovals(options)
    this.#slots = new CallSlots(options.caps.maxParallelTools)
  }

  /** Returns the result of a call. Undefined when `signal` aborts: the turn was stopped. */
  async run(call: FunctionCall, signal: AbortSignal): Promise<ToolAnswer | undefined> {
    const { tools, facts, clock, observer } = this.#options
    const tool = tools.get(call.name)
    if (tool === undefined) return undefined
    const refusal = await this.approvals.refusal(call, signal)
    if (signal.aborted || refusal !== undefined) return refusal
    const since = monotonicNow(clock)
    const answer = await this.#answer(tool, call, signal)
    const status = answer === undefined ? 'stopped' : answer.success ? 'succeeded' : 'failed'
    const durationMs = monotonicNow(clock) - since
    observer.toolEnded?.(facts, { tool: tool.name, status, durationMs })
    return answer
  }

  /** Failures are results, and reported. Undefined when the turn was stopped: the tool is not awaited. */
  async #answer(
    tool: Tool,
    call: FunctionCall,
    signal: AbortSignal,
  ): Promise<ToolAnswer | undefined> {
    try {
      const result = await this.#slots.run(signal, () => this.#execute(tool, call, signal))
      return { output: outputOf(result), success: true }
    } catch (cause) {
      return signal.aborted ? undefined : failedAnswer(tool.name, cause, this.#options.onError)
    }
  }

  async #execute(tool: Tool, call: FunctionCall, signal: AbortSignal): Promise<unknown> {
    const { clock, facts } = this.#options
    const { turnId, threadId, tenant } = facts
    const decoded = await decodeArguments(tool, call, { tenant, signal })
    if ('fault' in decoded) throw new Error(decoded.fault)
    const { name, timeoutMs = TIMEOUT_MS } = tool
    const limit = new AbortController()
    const cancelTimer = clock.after(timeoutMs, () => {
      const detail = `${name} did not answer within ${timeoutMs} ms`
      limit.abort(new TurnstreamError('TOOL_TIMEOUT', detail))
    })
    const forgetTurn = onAbort(signal, () => {
      limit.abort(new TurnstreamError('ABORTED', 'the turn was stopped'))
    })
    const context = { turnId, threadId, callId: call.call_id, signal: limit.signal }
    const run = async () => tool.execute(decoded.args, context)
    try {
      return await untilAborted(run(), limit.signal)
    } finally {
      cancelTimer()
      forgetTurn()
    }
  }
}

function outputOf(result: unknown): string {
  const output = typeof result === 'string' ? result : (JSON.stringify(result) ?? '')
  const { length } = output
  if (length <= MAX_OUTPUT_CHARS) return output
  throw new Error(`the output has ${length} characters; the limit is ${MAX_OUTPUT_CHARS}`)
}
