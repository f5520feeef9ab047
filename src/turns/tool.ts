import type { ToolDefinition } from '../adapters/provider.ts'

export interface ToolCallContext {
  readonly turnId: string
  readonly threadId: string
  readonly callId: string
  /** Aborts when the turn is stopped or the tool has taken too long. */
  readonly signal: AbortSignal
}

/** A tool that the server runs by itself when a model calls it. */
export interface Tool extends ToolDefinition {
  /** How long a call may take: 60 s unless given. */
  readonly timeoutMs?: number
  /**
   * The arguments are a JSON object, as the model wrote it. What it returns, or what its promise resolves
   * with, is the answer, as JSON if it is no string; what it throws is an answer too, of a failure.
   */
  execute(args: Record<string, unknown>, context: ToolCallContext): unknown
}
