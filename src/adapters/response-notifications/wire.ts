/**
 * The `response.*` notifications of proxies: the events of the Responses API, less strictly spelled.
 * docs/notifications.md has the table for people.
 */
import { isRecord } from '../../protocol/json.ts'
import { type Fields, Malformed } from '../fields.ts'

/** What is done with a notification. */
export type NotificationAction = 'begin' | 'text' | 'call' | 'item' | 'finish' | 'fail' | 'ignore'

/** Every type that is known, whether it means something to us or not. */
export const NOTIFICATION_ROUTES = {
  'response.created': 'begin',
  'response.queued': 'ignore',
  'response.in_progress': 'ignore',
  'response.output_item.added': 'item',
  'response.output_item.done': 'item',
  'response.content_part.added': 'text',
  'response.content_part.done': 'text',
  'response.output_text.delta': 'text',
  'response.output_text.done': 'text',
  'response.refusal.delta': 'text',
  'response.refusal.done': 'text',
  'response.reasoning_text.delta': 'text',
  'response.reasoning_text.done': 'text',
  'response.reasoning_summary_part.added': 'text',
  'response.reasoning_summary_part.done': 'text',
  'response.reasoning_summary_text.delta': 'text',
  'response.reasoning_summary_text.done': 'text',
  'response.function_call_arguments.delta': 'call',
  'response.function_call_arguments.done': 'call',
  'response.completed': 'finish',
  'response.done': 'finish',
  'response.incomplete': 'finish',
  'response.failed': 'fail',
  'response.error': 'fail',
  error: 'fail',
} as const satisfies Record<string, NotificationAction>

/** A notification is known by its type; everything else in it is read by whoever acts on it. */
export interface Notification extends Fields {
  type: string
}

export type DecodedNotification =
  | { action: NotificationAction; notification: Notification }
  | { action: 'unknown'; type: string }

const routes = new Map<string, NotificationAction>(Object.entries(NOTIFICATION_ROUTES))

export function decodeNotification(event: unknown): DecodedNotification {
  if (!isRecord(event)) throw new Malformed('the notification is not an object')
  const { type } = event
  if (typeof type !== 'string') throw new Malformed('type is not a string')
  const action = routes.get(type)
  if (action === undefined) return { action: 'unknown', type }
  return { action, notification: event as Notification }
}
