/** Messages of the app-server in its grammars, and what our translation makes of them. */
import {
  type ReducedResponse,
  type StreamEventPayload,
  type TranslationContext,
  translateCodex,
} from '../../../src/index.ts'
import { onlyResponseOf } from '../outcome.ts'
import { translateAll } from '../replay.ts'

export type Fields = Record<string, unknown>

/** Messages of one turn, without its beginning and its end, and the items that they come to. */
export interface Row {
  name: string
  events: unknown[]
  items: Fields[]
}

/** A notification of today's grammar, about turn `u` of thread `t` unless it says otherwise. */
export const note = (method: string, params: Fields = {}) => ({
  method,
  params: { threadId: 't', turnId: 'u', ...params },
  emittedAtMs: 1,
})

export const turnStarted = (id = 'u', threadId = 't') => ({
  method: 'turn/started',
  params: { threadId, turn: { id, items: [], status: 'inProgress', error: null } },
})

export const turnCompleted = (status: unknown = 'completed', turn: Fields = {}) => ({
  method: 'turn/completed',
  params: { threadId: 't', turn: { id: 'u', items: [], status, error: null, ...turn } },
})

export const turnFailed = (message: string, codexErrorInfo: unknown = 'other') =>
  turnCompleted('failed', { error: { message, codexErrorInfo, additionalDetails: null } })

export const started = (item: Fields) => note('item/started', { item })
export const completed = (item: Fields) => note('item/completed', { item })
export const textDelta = (itemId: string, delta: unknown) =>
  note('item/agentMessage/delta', { itemId, delta })
export const agentMessage = (id: string, text: string) => ({
  type: 'agentMessage',
  id,
  text,
  phase: null,
})

/** A message from its beginning to its end. */
export const said = (id: string, ...texts: string[]) => [
  started(agentMessage(id, '')),
  ...texts.map((text) => textDelta(id, text)),
  completed(agentMessage(id, texts.join(''))),
]

export const raw = (item: Fields) => note('rawResponseItem/completed', { item })
export const rawCall = (call_id: string, name: string, args: string) =>
  raw({ type: 'function_call', id: `fc_${call_id}`, call_id, name, arguments: args })
export const rawOutput = (call_id: string, output: unknown) =>
  raw({ type: 'function_call_output', call_id, output })
export const rawCompleted = (usage: unknown = null) =>
  note('rawResponse/completed', { responseId: 'resp_1', usage })

export const clientTool = (id: string, fields: Fields = {}) => ({
  type: 'dynamicToolCall',
  id,
  namespace: null,
  tool: 'get_weather',
  arguments: { city: 'Paris' },
  status: 'inProgress',
  contentItems: null,
  success: null,
  ...fields,
})

export const counts = (inputTokens: number, outputTokens: number) => ({
  totalTokens: inputTokens + outputTokens,
  inputTokens,
  cachedInputTokens: 0,
  outputTokens,
  reasoningOutputTokens: 0,
})
export const tokenUsage = (total: unknown, last: unknown) =>
  note('thread/tokenUsage/updated', { tokenUsage: { total, last, modelContextWindow: 1 } })

export const failedAttempt = note('error', {
  error: { message: 'Reconnecting... 1/2', codexErrorInfo: 'other' },
  willRetry: true,
})

/** A turn that has begun to say something. */
export const halfway = [turnStarted(), started(agentMessage('m', '')), textDelta('m', 'Half')]

/** An event of the earlier grammar. */
export const legacy = (type: string, msg: Fields = {}) => ({
  method: `codex/event/${type}`,
  params: { id: '0', msg: { type, ...msg }, conversationId: 't' },
})

export const agentItem = (id: string, text: string) => ({
  item: { type: 'AgentMessage', id, content: [{ type: 'Text', text }] },
})

export const begun = legacy('task_started', { turn_id: '0' })
export const done = legacy('task_complete', { last_agent_message: null })

export function translate(
  events: Iterable<unknown>,
  extra: Partial<TranslationContext> = {},
): StreamEventPayload[] {
  return translateAll(translateCodex, events, extra)
}

export function responseOf(events: Iterable<unknown>): ReducedResponse {
  return onlyResponseOf(translate(events))
}

/** An item without its id and without what is kept of codex, except whose call it is. */
export function plain(item: ReducedResponse['output_items'][number]): Fields {
  const { id: _, provider_metadata, ...rest } = item
  const by = provider_metadata?.['executed_by']
  return { ...rest, ...(by !== undefined && { executed_by: by }) }
}

export const itemsOf = (events: Iterable<unknown>): Fields[] =>
  responseOf(events).output_items.map(plain)

export const message = (content: string) => ({ type: 'message', content, origin: 'agent' })
export const userMessage = (content: string) => ({ type: 'message', content, origin: 'user' })
export const reasoning = (content: string) => ({ type: 'reasoning', content, origin: 'agent' })
export const call = (call_id: string, name: string, args: string) => ({
  type: 'function_call',
  call_id,
  name,
  arguments: args,
})
export const output = (call_id: string, text: string, success = true) => ({
  type: 'function_call_output',
  call_id,
  output: text,
  success,
})
export const byCodex = (item: Fields) => ({ ...item, executed_by: 'provider' })
