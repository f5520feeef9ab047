import type { TurnstreamError } from '../protocol/errors.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { ItemType, Usage } from '../protocol/stream-event.ts'
import type {
  ItemSnapshot,
  PendingCall,
  StreamMessage,
  TurnComplete,
  TurnError,
  TurnStarted,
} from '../protocol/stream-output.ts'
import { BatchGradient } from './batch-gradient.ts'
import type { ContentBuffer } from './content-buffer.ts'
import type { ResolvedOptions } from './options.ts'

export type ToolOutputItem = Extract<OutputItem, { type: 'function_call_output' }>

/** What the rules need to know of the options. */
export interface TurnRules {
  readonly turnId: string
  readonly threadId: string
  readonly gradient: BatchGradient
  readonly batchTimeoutMs: number
  readonly maxLatencyMs: number
  readonly estimateTokens: (totalLength: number) => number
}

/**
 * A decision to show something. What it shows is fixed when it is decided, except for what depends
 * on the fate of the emissions before it: whether a growing item is new to the sink, and whether a
 * cancelled one was ever seen.
 */
export type Emission = (
  | { kind: 'opening'; output: TurnStarted }
  | { kind: 'growth'; buffer: ContentBuffer; content: string }
  | {
      kind: 'final' | 'cancellation'
      buffer: ContentBuffer
      revision: number
      output: ItemSnapshot
    }
  | { kind: 'ending'; output: TurnComplete | TurnError }
) & {
  /** Made at the first attempt and kept, so that every later one carries the same `eventId`. */
  message?: StreamMessage
}

export type Effect =
  | { do: 'emit'; emission: Emission }
  | { do: 'wake'; at: number }
  | { do: 'sleep' }
  | { do: 'report'; error: TurnstreamError }

/** One of the two turn events: sent once, remembered until it was accepted. */
interface Milestone {
  emission: Emission
  fate: 'queued' | 'accepted' | 'lost'
}

/** Everything one turn has come to. Changed in place by `step`, and by nothing else. */
export interface TurnState {
  readonly rules: TurnRules
  opening: Milestone | undefined
  ending: Milestone | undefined
  providerId: string
  usage: Usage | undefined
  /** The time of `response_start`. */
  startedAt: number | undefined
  /** The finished text after which no other item has ended: the one that the token limit cuts. */
  lastText: { readonly buffer: ContentBuffer; readonly output: ItemSnapshot } | undefined
  /** Finished calls without an output that neither the server nor the provider runs, by item id. */
  readonly pendingCalls: Map<string, PendingCall>
  /** Items that may still change: open ones, and tool calls that wait for their output. */
  readonly items: Map<string, ContentBuffer>
  /** The calls among them, by `call_id`, oldest first. */
  readonly calls: Map<string, readonly ContentBuffer[]>
  /** Outputs that came before their call, by `call_id`. */
  readonly waitingOutputs: Map<string, ToolOutputItem>
  /** Items whose start and deltas mean nothing to a reader: tool outputs and errors. */
  readonly ignored: Map<string, ItemType>
  readonly finished: Set<string>
  /** Last snapshots of finished items that the sink did not take, by item. */
  readonly unsent: Map<string, Emission>
  /** When the timer is set to ring; Infinity when it is not set. */
  wakeAt: number
  /** What was reported already, so that a stream of strays makes one report. */
  readonly reported: Set<string>
}

export function createTurn(options: ResolvedOptions): TurnState {
  return {
    rules: {
      turnId: options.turnId,
      threadId: options.threadId,
      gradient: new BatchGradient(options.batchGradient),
      batchTimeoutMs: options.batchTimeoutMs,
      maxLatencyMs: options.maxLatencyMs,
      estimateTokens: options.estimateTokens,
    },
    opening: undefined,
    ending: undefined,
    providerId: '',
    usage: undefined,
    startedAt: undefined,
    lastText: undefined,
    pendingCalls: new Map(),
    items: new Map(),
    calls: new Map(),
    waitingOutputs: new Map(),
    ignored: new Map(),
    finished: new Set(),
    unsent: new Map(),
    wakeAt: Infinity,
    reported: new Set(),
  }
}

/** Lets go of everything that was kept for items. */
export function releaseItems(turn: TurnState): void {
  turn.items.clear()
  turn.lastText = undefined
  turn.pendingCalls.clear()
  turn.calls.clear()
  turn.waitingOutputs.clear()
  turn.ignored.clear()
  turn.finished.clear()
  turn.unsent.clear()
  turn.reported.clear()
}
