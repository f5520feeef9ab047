/** Notifications of a proxy, and what our translation makes of them. */
import {
  type ReducedResponse,
  type StreamEventPayload,
  type TranslationContext,
  translateResponseNotifications,
} from '../../../src/index.ts'
import { onlyResponseOf } from '../outcome.ts'
import { translateAll } from '../replay.ts'

export type Fields = Record<string, unknown>

export const note = (type: string, fields: Fields = {}) => ({ type: `response.${type}`, ...fields })

export const created = note('created', { response: { model: 'gpt-x' } })
export const finished = note('done')
export const text = (delta: string, fields: Fields = {}) =>
  note('output_text.delta', { delta, ...fields })
export const added = (item: Fields, fields: Fields = {}) =>
  note('output_item.added', { item, ...fields })
export const done = (item: Fields, fields: Fields = {}) =>
  note('output_item.done', { item, ...fields })
export const argumentsDelta = (delta: string, fields: Fields = {}) =>
  note('function_call_arguments.delta', { delta, ...fields })

export const wireCall = (call_id: string, fields: Fields = {}) => ({
  type: 'function_call',
  call_id,
  name: 'f',
  ...fields,
})

export const call = (call_id: string, ...fragments: string[]) => [
  added(wireCall(call_id)),
  ...fragments.map((fragment) => argumentsDelta(fragment, { call_id })),
  note('function_call_arguments.done', { call_id }),
  done(wireCall(call_id)),
]

export function translate(
  events: Iterable<unknown>,
  extra: Partial<TranslationContext> = {},
): StreamEventPayload[] {
  return translateAll(translateResponseNotifications, events, extra)
}

export function responseOf(events: Iterable<unknown>): ReducedResponse {
  return onlyResponseOf(translate(events))
}

/** The items of an input, each without its id and what is kept of the vendor. */
export function itemsOf(events: Iterable<unknown>): Fields[] {
  return responseOf(events).output_items.map((item) => {
    const { id: _, provider_metadata: __, ...rest } = item
    return rest
  })
}
