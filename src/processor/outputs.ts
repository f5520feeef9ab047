/** How decisions look on the wire: the only place where outputs are put together. */
import { parseJsonObject } from '../protocol/json.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type {
  Content,
  Status,
  StreamOutput,
  ToolCall,
  TurnComplete,
} from '../protocol/stream-output.ts'
import type { Usage } from '../protocol/usage.ts'
import type { ContentBuffer } from './content-buffer.ts'
import type { Emission, ToolOutputItem, TurnRules } from './turn-state.ts'

type TextItem = Extract<OutputItem, { type: 'message' | 'reasoning' }>

/** The output of an emission whose turn has come, or undefined when there is nothing to show. */
export function renderEmission(rules: TurnRules, emission: Emission): StreamOutput | undefined {
  switch (emission.kind) {
    case 'growth': {
      const { buffer, content } = emission
      return snapshot(rules, buffer, buffer.hasEmittedCreate() ? 'update' : 'create', content)
    }
    case 'cancellation':
      return emission.buffer.hasEmittedCreate() ? emission.output : undefined
    default:
      return emission.output
  }
}

/** The item as its buffer knows it. */
export function snapshot(
  { turnId, threadId }: TurnRules,
  buffer: ContentBuffer,
  status: Status,
  content: string,
): Content {
  const { itemId } = buffer
  switch (buffer.contentType) {
    case 'message':
      return {
        type: 'message',
        turnId,
        threadId,
        itemId,
        status,
        content,
        origin: buffer.origin ?? 'agent',
      }
    case 'thinking':
      return {
        type: 'thinking',
        turnId,
        threadId,
        itemId,
        status,
        content,
        providerId: buffer.providerId ?? '',
      }
    case 'tool_call':
      return {
        type: 'tool_call',
        turnId,
        threadId,
        itemId,
        status,
        content,
        toolName: buffer.toolName ?? '',
        toolArguments: buffer.toolArguments ?? {},
        callId: buffer.callId ?? '',
      }
  }
}

/** The final text is authoritative, also when it is shorter than what was streamed. */
export function completedText(
  rules: TurnRules,
  buffer: ContentBuffer,
  item: TextItem,
  finishReason?: string | null,
): Content {
  const { turnId, threadId } = rules
  const { itemId } = buffer
  const common = { turnId, threadId, itemId, status: 'complete', content: item.content } as const
  const reason = finishReason ? { finishReason } : undefined
  return item.type === 'message'
    ? { type: 'message', ...common, origin: item.origin, ...reason }
    : { type: 'thinking', ...common, providerId: buffer.providerId ?? '', ...reason }
}

export function completedCall(
  rules: TurnRules,
  call: ContentBuffer,
  item: ToolOutputItem,
): ToolCall {
  const { turnId, threadId } = rules
  return {
    type: 'tool_call',
    turnId,
    threadId,
    itemId: call.itemId,
    status: 'complete',
    content: call.getContent(),
    toolName: call.toolName ?? '',
    toolArguments: call.toolArguments ?? {},
    callId: call.callId ?? '',
    toolOutput: parseJsonObject(item.output) ?? item.output,
    success: item.success,
  }
}

export function withError(content: Content, errorCode: string, errorMessage: string): Content {
  return { ...content, status: 'error', errorCode, errorMessage }
}

export function turnComplete(
  { turnId, threadId }: TurnRules,
  status: TurnComplete['status'],
  usage: Usage | undefined,
): TurnComplete {
  if (usage === undefined) return { type: 'turn_complete', turnId, threadId, status }
  const { prompt_tokens, completion_tokens, total_tokens } = usage
  return {
    type: 'turn_complete',
    turnId,
    threadId,
    status,
    usage: {
      promptTokens: prompt_tokens,
      completionTokens: completion_tokens,
      totalTokens: total_tokens,
    },
  }
}
