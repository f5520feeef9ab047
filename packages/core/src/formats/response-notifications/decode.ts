/** The `response.*` notifications of proxies: Responses API events with looser spelling. See docs/adapters.md. */
import { isRecord } from '../../protocol/json.ts'
import { type Fields, Malformed } from '../fields.ts'
import { TEXT_EVENTS } from '../responses/decode.ts'

export type NotificationAction = 'begin' | 'text' | 'call' | 'item' | 'finish' | 'fail' | 'ignore'

/** Action of each known type. Text types are spelled as in the Responses API. */
export const NOTIFICATION_ROUTES: ReadonlyMap<string, NotificationAction> = new Map([
  ['response.created', 'begin'],
  ['response.queued', 'ignore'],
  ['response.in_progress', 'ignore'],
  ['response.output_item.added', 'item'],
  ['response.output_item.done', 'item'],
  ...Array.from(TEXT_EVENTS.keys(), (type): [string, NotificationAction] => [type, 'text']),
  ['response.function_call_arguments.delta', 'call'],
  ['response.function_call_arguments.done', 'call'],
  ['response.completed', 'finish'],
  ['response.done', 'finish'],
  ['response.incomplete', 'finish'],
  ['response.failed', 'fail'],
  ['response.error', 'fail'],
  ['error', 'fail'],
])

/** A notification is known by its type; the handler decodes the rest. */
export interface Notification extends Fields {
  type: string
}

export type DecodedNotification =
  | { action: NotificationAction; notification: Notification }
  | { action: 'unknown'; type: string }

export function decodeNotification(event: unknown): DecodedNotification {
  if (!isRecord(event)) throw new Malformed('the notification is not an object')
  const { type } = event
  if (typeof type !== 'string') throw new Malformed('type is not a string')
  const action = NOTIFICATION_ROUTES.get(type)
  if (action === undefined) return { action: 'unknown', type }
  return { action, notification: event as Notification }
}
