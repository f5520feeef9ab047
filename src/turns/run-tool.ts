import type { Clock } from '../async/clock.ts'
import { onAbort } from '../log/on-abort.ts'
import { hasCode, TurnstreamError } from '../protocol/errors.ts'
import { parseJsonObject } from '../protocol/json.ts'
import { redactShapes } from '../protocol/redaction.ts'
import type { FunctionCall } from './round-calls.ts'
import type { Tool } from './tool.ts'
import type { ToolAnswer } from './transcript.ts'

export interface RunToolOptions {
  readonly turnId: string
  readonly threadId: string
  readonly clock: Clock
  /** Aborts when the turn is stopped. */
  readonly signal: AbortSignal
  readonly onError: (error: unknown) => void
}

const TIMEOUT_MS = 60_000

// As much as the arguments of a call may have: what a model can read is far less.
const MAX_OUTPUT_CHARS = 1_000_000

/**
 * Runs a tool. What goes wrong is the answer, and the operator is told; undefined when the turn was
 * stopped before there was an answer. Nobody waits for a tool that goes on regardless.
 */
export async function runTool(
  tool: Tool,
  call: FunctionCall,
  options: RunToolOptions,
): Promise<ToolAnswer | undefined> {
  try {
    return { output: outputOf(await execute(tool, call, options)), success: true }
  } catch (cause) {
    if (options.signal.aborted) return undefined
    const error = toolError(tool, cause)
    options.onError(error)
    // The model reads it, and everybody who reads the turn.
    return { output: `${error.code}: ${redactShapes(error.message)}`, success: false }
  }
}

async function execute(tool: Tool, call: FunctionCall, options: RunToolOptions): Promise<unknown> {
  const args = parseJsonObject(call.arguments)
  if (args === undefined) throw new Error('the arguments are no JSON object')
  const { turnId, threadId } = options
  const limit = new ToolLimit(tool, options)
  try {
    const context = { turnId, threadId, callId: call.call_id, signal: limit.signal }
    return await Promise.race([tool.execute(args, context), limit.passed])
  } finally {
    limit.release()
  }
}

/** Stops a tool when its time is over, or the turn is. */
class ToolLimit {
  /** Rejects when the tool has to stop. */
  readonly passed: Promise<never>
  readonly #controller = new AbortController()
  readonly #cancelTimer: () => void
  readonly #forgetTurn: () => void
  #pass: (error: TurnstreamError) => void = () => {}

  constructor({ name, timeoutMs = TIMEOUT_MS }: Tool, { clock, signal }: RunToolOptions) {
    this.passed = new Promise<never>((_resolve, reject) => {
      this.#pass = reject
    })
    this.passed.catch(() => {}) // whoever runs the tool hears of it
    this.#cancelTimer = clock.after(timeoutMs, () => {
      this.#stop(
        new TurnstreamError('TOOL_TIMEOUT', `${name} did not answer within ${timeoutMs} ms`),
      )
    })
    this.#forgetTurn = onAbort(signal, () => {
      this.#stop(new TurnstreamError('ABORTED', 'the turn was stopped'))
    })
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  release(): void {
    this.#cancelTimer()
    this.#forgetTurn()
  }

  #stop(error: TurnstreamError): void {
    this.#pass(error)
    this.#controller.abort(error)
  }
}

function outputOf(result: unknown): string {
  const output = typeof result === 'string' ? result : (JSON.stringify(result) ?? '')
  if (output.length <= MAX_OUTPUT_CHARS) return output
  const allowed = `${MAX_OUTPUT_CHARS} are allowed`
  throw new Error(`the output has ${output.length} characters, and ${allowed}`)
}

function toolError({ name }: Tool, cause: unknown): TurnstreamError {
  if (hasCode(cause, 'TOOL_TIMEOUT')) return cause
  return new TurnstreamError('TOOL_FAILED', `${name}: ${reasonOf(cause)}`, { cause })
}

/** A tool may throw anything, also what has no text, such as `Object.create(null)`. */
function reasonOf(cause: unknown): string {
  try {
    return String(cause instanceof Error ? cause.message : cause)
  } catch {
    return 'what it threw cannot be read'
  }
}
