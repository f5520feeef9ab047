import type { MessageOrigin } from './output-item.ts'
import type { TurnStatus } from './stream-event.ts'

/** One output of the processor: the state of an item, or the start or end of the turn. */
export type StreamOutput = ItemSnapshot | TurnEvent

/** The complete state of one item, ready to render. */
export type ItemSnapshot = MessageSnapshot | Thinking | ToolCall
export type ContentType = ItemSnapshot['type']

interface SnapshotFields {
  turnId: string
  threadId: string
  itemId: string
  status: SnapshotStatus
  /** The whole text so far, never a delta. */
  content: string
  /** Why a text ended early: `cancelled`, `length`. */
  finishReason?: string
  errorCode?: string
  errorMessage?: string
}

/** What a renderer does with a snapshot: create the element, update it, complete it, or show an error. */
export type SnapshotStatus = 'create' | 'update' | 'complete' | 'error'

export interface MessageSnapshot extends SnapshotFields {
  type: 'message'
  origin: MessageOrigin
}

export interface Thinking extends SnapshotFields {
  type: 'thinking'
  providerId: string
}

/** `content` is empty unless the arguments could not be parsed; then it is their raw text. */
export interface ToolCall extends SnapshotFields {
  type: 'tool_call'
  toolName: string
  toolArguments: Record<string, unknown>
  /** The arguments so far, as the model writes them. Only for readers that request them. */
  toolArgumentsText?: string
  callId: string
  toolOutput?: Record<string, unknown> | string
  success?: boolean
  approval?: Approval
}

/** Whether the server may run a call. */
export interface Approval {
  id: string
  status: 'requested' | 'approved' | 'declined'
  reason?: string
  answeredBy?: string
  answeredAt?: number
}

export type TurnEvent = TurnStarted | TurnComplete | TurnError

export interface TurnStarted {
  type: 'turn_started'
  turnId: string
  threadId: string
  modelId?: string
  providerId?: string
  /** The turn of the thread that this one replaces, together with all later ones. */
  replaces?: string
}

/** Fields of every turn end. The times are of the first and the last event, in ms since the epoch. */
interface TurnEnd {
  turnId: string
  threadId: string
  finishReason?: string
  usage?: OutputUsage
  startedAt?: number
  endedAt?: number
  /** Calls that the client may still answer. Never after a cancel. */
  pendingCalls?: PendingCall[]
}

export interface TurnComplete extends TurnEnd {
  type: 'turn_complete'
  status: TurnStatus
}

/** The wire format. The exception class is `TurnstreamError`. */
export interface TurnError extends TurnEnd {
  type: 'turn_error'
  error: { code: string; message: string }
}

interface OutputUsage {
  promptTokens: number
  completionTokens: number
  totalTokens: number
  cachedTokens?: number
  cacheWriteTokens?: number
  reasoningTokens?: number
  estimated?: boolean
}

/** A call that the client must answer in the next turn. */
export interface PendingCall {
  callId: string
  itemId: string
  toolName: string
}

/** One record of the `processed` log. */
export interface StreamMessage {
  eventId: string
  timestamp: number
  turnId: string
  /** The JSON of a `StreamOutput`. */
  payload: string
}

/** @deprecated Use `ItemSnapshot`. */
export type Content = ItemSnapshot
/** @deprecated Use `MessageSnapshot`. */
export type Message = MessageSnapshot
/** @deprecated Use `SnapshotStatus`. */
export type Status = SnapshotStatus
