/** Events of the Responses API, and what our translation makes of them. */

import { EventStamp } from '../../../src/formats/event-stamp.ts'
import {
  isStreamEvent,
  type ReducedResponse,
  type StreamEventPayload,
  type TranslationContext,
  translateOpenaiResponses,
} from '../../../src/index.ts'
import { onlyResponseOf } from '../outcome.ts'
import { translateAll } from '../replay.ts'

export type Fields = Record<string, unknown>

export const created = { type: 'response.created', response: { model: 'gpt-x', output: [] } }

export const ended = (type: string, response: Fields = {}) => ({
  type: `response.${type}`,
  response: { status: type, output: [], ...response },
})
export const completed = ended('completed')

export const added = (output_index: unknown, item: unknown) => ({
  type: 'response.output_item.added',
  output_index,
  item,
})
export const done = (output_index: unknown, item: unknown) => ({
  ...added(output_index, item),
  type: 'response.output_item.done',
})

export const textDelta = (output_index: unknown, delta: unknown, content_index: unknown = 0) => ({
  type: 'response.output_text.delta',
  output_index,
  content_index,
  delta,
})
export const summaryDelta = (output_index: number, summary_index: number, delta: string) => ({
  type: 'response.reasoning_summary_text.delta',
  output_index,
  summary_index,
  delta,
})
export const argumentsDelta = (output_index: unknown, delta: unknown) => ({
  type: 'response.function_call_arguments.delta',
  output_index,
  delta,
})
export const inputDelta = (output_index: unknown, delta: unknown) => ({
  type: 'response.custom_tool_call_input.delta',
  output_index,
  delta,
})

export const wireMessage = (...texts: string[]) => ({
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  status: 'completed',
  content: texts.map((text) => ({ type: 'output_text', text, annotations: [] })),
})
export const wireCall = (call_id: string, name: string, args?: string) => ({
  type: 'function_call',
  id: `fc_${call_id}`,
  call_id,
  name,
  ...(args !== undefined && { arguments: args }),
})
export const wireCustom = (call_id: string, name: string, input?: string) => ({
  type: 'custom_tool_call',
  id: `ctc_${call_id}`,
  call_id,
  name,
  ...(input !== undefined && { input }),
})

export const text = (index: number, ...texts: string[]) => [
  added(index, wireMessage()),
  ...texts.map((each) => textDelta(index, each)),
  done(index, wireMessage(texts.join(''))),
]
export const call = (index: number, id: string, name: string, ...fragments: string[]) => [
  added(index, wireCall(id, name, '')),
  ...fragments.map((fragment) => argumentsDelta(index, fragment)),
  done(index, wireCall(id, name, fragments.join(''))),
]

export function translate(
  events: Iterable<unknown>,
  extra: Partial<TranslationContext> = {},
): StreamEventPayload[] {
  return translateAll(translateOpenaiResponses, events, extra)
}

export function responseOf(events: Iterable<unknown>): ReducedResponse {
  return onlyResponseOf(translate(events))
}

/** An item without its id, and with what is kept of the vendor at the top. */
export function plain(item: ReducedResponse['output_items'][number]): Fields {
  const { id: _, provider_metadata: metadata = {}, ...rest } = item
  return { ...rest, ...metadata }
}

/** The items of a turn that has these events between its beginning and its end. */
export const itemsOf = (events: Iterable<unknown>): Fields[] =>
  responseOf([created, ...events, completed]).output_items.map(plain)

const TERMINALS = new Set(['response_done', 'response_error'])

/** Why payloads are not what every input must give: well-formed responses, each with one end. */
export function faultOf(payloads: readonly StreamEventPayload[]): string | undefined {
  const stamp = new EventStamp({ now: () => 0 })
  const seen = new Set<string>()
  const open = new Set<string>()
  let isRunning = false
  for (const payload of payloads) {
    const { type } = payload
    if (!isStreamEvent(stamp.stamp(payload))) return `malformed: ${JSON.stringify(payload)}`
    if (isRunning === (type === 'response_start')) return `${type} outside of its response`
    if (type === 'response_start') isRunning = true
    if (type === 'item_start') {
      if (seen.has(payload.item_id)) return `${payload.item_id} started twice`
      seen.add(payload.item_id)
      open.add(payload.item_id)
    } else if ('item_id' in payload) {
      if (!open.has(payload.item_id)) return `${type} of ${payload.item_id}, which is not open`
      if (type !== 'item_delta') open.delete(payload.item_id)
    }
    if (TERMINALS.has(type)) {
      if (open.size > 0) return `${type} with open items`
      isRunning = false
    }
  }
  if (payloads.length === 0) return 'nothing'
  return isRunning ? 'no end' : undefined
}
