import { parseJsonObject } from '../protocol/json.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { Usage } from '../protocol/stream-event.ts'
import type {
  Approval,
  ItemSnapshot,
  SnapshotStatus,
  StreamOutput,
  TurnComplete,
  TurnError,
} from '../protocol/stream-output.ts'
import type { ContentBuffer } from './content-buffer.ts'
import type { Emission, Terminal, ToolOutputItem, TurnRules, TurnState } from './step.ts'

export type ApprovalRequestItem = Extract<OutputItem, { type: 'approval_request' }>
export type ApprovalResponseItem = Extract<OutputItem, { type: 'approval_response' }>
type TextItem = Extract<OutputItem, { type: 'message' | 'reasoning' }>

/** Renders an emission when it is about to be sent; undefined when there is nothing to emit. */
export function renderEmission(rules: TurnRules, emission: Emission): StreamOutput | undefined {
  switch (emission.kind) {
    case 'growth': {
      const { buffer, content } = emission
      const status = buffer.hasEmittedCreate() ? 'update' : 'create'
      const output = snapshot(rules, buffer, status, content)
      if (output.type !== 'tool_call') return output
      return { ...output, content: '', toolArgumentsText: content }
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

export function snapshot(
  { turnId, threadId }: TurnRules,
  buffer: ContentBuffer,
  status: SnapshotStatus,
  content = buffer.getContent(),
): ItemSnapshot {
  const common = { turnId, threadId, itemId: buffer.itemId, status, content }
  switch (buffer.contentType) {
    case 'message':
      return { type: 'message', ...common, origin: buffer.origin ?? 'agent' }
    case 'thinking':
      return { type: 'thinking', ...common, providerId: buffer.providerId ?? '' }
    case 'tool_call': {
      const { toolName = '', toolArguments = {}, callId = '', approval } = buffer
      const call = { toolName, toolArguments, callId, ...(approval !== undefined && { approval }) }
      return { type: 'tool_call', ...common, ...call }
    }
  }
}

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
  return {
    ...snapshot(rules, buffer, 'complete', item.content),
    ...(item.type === 'message' && { origin: item.origin }),
    ...(finishReason && { finishReason }),
  }
}

/** A call whose tool has answered. A tool that failed has answered too: `error` is for calls that never ended. */
export function completedCall(
  rules: TurnRules,
  call: ContentBuffer,
  { output, success }: ToolOutputItem,
): ItemSnapshot {
  const toolOutput = parseJsonObject(output) ?? output
  return Object.assign(snapshot(rules, call, 'complete'), { toolOutput, success })
}

export function failedItem(
  rules: TurnRules,
  buffer: ContentBuffer,
  errorCode: string,
  errorMessage: string,
): ItemSnapshot {
  return { ...snapshot(rules, buffer, 'error'), errorCode, errorMessage }
}

/** Depends on the events only, so a replay gives the same result. */
export function endingOutput(
  turn: TurnState,
  { payload, timestamp: endedAt }: Terminal,
): TurnComplete | TurnError {
  const { turnId, threadId } = turn.rules
  const { usage = turn.usage } = payload
  const ids = { turnId, threadId }
  const fields = (finishReason: string | null | undefined) => ({
    ...(finishReason != null && { finishReason }),
    ...(usage !== undefined && { usage: usageFields(usage) }),
    ...(turn.startedAt !== undefined && { startedAt: turn.startedAt }),
    endedAt,
  })
  switch (payload.type) {
    case 'response_done': {
      const { status, finish_reason } = payload
      const end = { ...fields(finish_reason), ...callsForClient(turn) }
      return { type: 'turn_complete', ...ids, status, ...end }
    }
    case 'turn_aborted_by_user':
      // The user stopped the turn: a client must not continue by itself.
      return { type: 'turn_complete', ...ids, status: 'aborted', ...fields('cancelled') }
    case 'response_error': {
      const { code, message } = payload.error
      const end = { ...fields('error'), ...callsForClient(turn) }
      return { type: 'turn_error', ...ids, error: { code, message }, ...end }
    }
  }
}

function callsForClient({ calls }: TurnState): Pick<TurnComplete, 'pendingCalls'> {
  const pendingCalls = calls.all
    .filter(({ isForClient }) => isForClient)
    .map(({ itemId, callId = '', toolName = '' }) => ({ callId, itemId, toolName }))
  return pendingCalls.length === 0 ? {} : { pendingCalls }
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
