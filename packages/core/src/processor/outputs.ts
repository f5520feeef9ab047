/** Builds all outputs. */

import { parseJsonObject } from '../protocol/json.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { ErrorObject, Usage } from '../protocol/stream-event.ts'
import type {
  Approval,
  ItemSnapshot,
  SnapshotStatus,
  StreamOutput,
  ToolCall,
  TurnComplete,
  TurnError,
} from '../protocol/stream-output.ts'
import type { ContentBuffer } from './content-buffer.ts'
import type { Emission, ToolOutputItem, TurnRules, TurnState } from './step.ts'

export type ApprovalRequestItem = Extract<OutputItem, { type: 'approval_request' }>
export type ApprovalResponseItem = Extract<OutputItem, { type: 'approval_response' }>
type TextItem = Extract<OutputItem, { type: 'message' | 'reasoning' }>

/** Renders an emission when it is about to be sent; undefined when there is nothing to emit. */
export function renderEmission(rules: TurnRules, emission: Emission): StreamOutput | undefined {
  switch (emission.kind) {
    case 'growth': {
      const { buffer, content } = emission
      const status = buffer.hasEmittedCreate() ? 'update' : 'create'
      if (buffer.contentType !== 'tool_call') return snapshot(rules, buffer, status, content)
      return { ...callSnapshot(rules, buffer, status, ''), toolArgumentsText: content }
    }
    case 'cancellation':
      return emission.buffer.hasEmittedCreate() ? emission.output : undefined
    case 'final': {
      const { output, buffer } = emission
      if (output.status !== 'create' && output.status !== 'update') return output
      return { ...output, status: buffer.hasEmittedCreate() ? 'update' : 'create' }
    }
    default:
      return emission.output
  }
}

/** Renders the item from its buffer. */
export function snapshot(
  rules: TurnRules,
  buffer: ContentBuffer,
  status: SnapshotStatus,
  content: string,
): ItemSnapshot {
  const common = commonFields(rules, buffer, status, content)
  switch (buffer.contentType) {
    case 'message':
      return { type: 'message', ...common, origin: buffer.origin ?? 'agent' }
    case 'thinking':
      return { type: 'thinking', ...common, providerId: buffer.providerId ?? '' }
    case 'tool_call':
      return callSnapshot(rules, buffer, status, content)
  }
}

function callSnapshot(
  rules: TurnRules,
  buffer: ContentBuffer,
  status: SnapshotStatus,
  content: string,
): ToolCall {
  const common = commonFields(rules, buffer, status, content)
  return { type: 'tool_call', ...common, ...callFields(buffer) }
}

function commonFields(
  { turnId, threadId }: TurnRules,
  { itemId }: ContentBuffer,
  status: SnapshotStatus,
  content: string,
) {
  return { turnId, threadId, itemId, status, content }
}

function callFields(call: ContentBuffer) {
  const { toolName = '', toolArguments = {}, callId = '', approval } = call
  return { toolName, toolArguments, callId, ...(approval !== undefined && { approval }) }
}

/** The answer as part of a snapshot. */
export function approvalOf(item: ApprovalResponseItem): Approval {
  const { approval_id: id, approved, reason, answered_by: by, answered_at: answeredAt } = item
  return {
    id,
    status: approved ? 'approved' : 'declined',
    ...(reason !== undefined && { reason }),
    ...(by !== undefined && { answeredBy: by }),
    answeredAt,
  }
}

/** The final text is authoritative, even if it is shorter than the streamed text. */
export function completedText(
  rules: TurnRules,
  buffer: ContentBuffer,
  item: TextItem,
  finishReason?: string | null,
): ItemSnapshot {
  const common = commonFields(rules, buffer, 'complete', item.content)
  const reason = finishReason ? { finishReason } : undefined
  return item.type === 'message'
    ? { type: 'message', ...common, origin: item.origin, ...reason }
    : { type: 'thinking', ...common, providerId: buffer.providerId ?? '', ...reason }
}

/** A call whose tool has answered. A tool that failed has answered too: `error` is for calls that never ended. */
export function completedCall(
  rules: TurnRules,
  call: ContentBuffer,
  { output, success }: ToolOutputItem,
): ToolCall {
  const common = commonFields(rules, call, 'complete', call.getContent())
  const toolOutput = parseJsonObject(output) ?? output
  return { type: 'tool_call', ...common, ...callFields(call), toolOutput, success }
}

export function withError(
  content: ItemSnapshot,
  errorCode: string,
  errorMessage: string,
): ItemSnapshot {
  return { ...content, status: 'error', errorCode, errorMessage }
}

export function turnComplete(
  turn: TurnState,
  status: TurnComplete['status'],
  end: TurnEnd,
): TurnComplete {
  const { turnId, threadId } = turn.rules
  return { type: 'turn_complete', turnId, threadId, status, ...endFields(turn, end) }
}

export function turnError(
  turn: TurnState,
  { code, message }: ErrorObject,
  end: TurnEnd,
): TurnError {
  const { turnId, threadId } = turn.rules
  const error = { code, message }
  return { type: 'turn_error', turnId, threadId, error, ...endFields(turn, end) }
}

interface TurnEnd {
  readonly finishReason: string | null | undefined
  readonly usage: Usage | undefined
  readonly endedAt: number
}

/** Depends on the events only, so a replay gives the same result. */
function endFields(turn: TurnState, { finishReason, usage = turn.usage, endedAt }: TurnEnd) {
  return {
    ...(finishReason != null && { finishReason }),
    ...(usage !== undefined && { usage: usageFields(usage) }),
    ...(turn.startedAt !== undefined && { startedAt: turn.startedAt }),
    endedAt,
  }
}

function usageFields(usage: Usage): NonNullable<TurnComplete['usage']> {
  const { cached_tokens, cache_write_tokens, reasoning_tokens, estimated } = usage
  return {
    promptTokens: usage.prompt_tokens,
    completionTokens: usage.completion_tokens,
    totalTokens: usage.total_tokens,
    ...(cached_tokens !== undefined && { cachedTokens: cached_tokens }),
    ...(cache_write_tokens !== undefined && { cacheWriteTokens: cache_write_tokens }),
    ...(reasoning_tokens !== undefined && { reasoningTokens: reasoning_tokens }),
    ...(estimated !== undefined && { estimated }),
  }
}
