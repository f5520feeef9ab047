/** Reads the parts of a `response.*` notification that speak of a tool call. */
import { isRecord } from '../protocol/json.ts'

type Fields = Record<string, unknown>

const ID = 'id'

/** The item that a notification is about. */
export function itemOf(notification: Fields): Fields {
  const item = notification['item'] ?? notification['output_item'] ?? notification['outputItem']
  return isRecord(item) ? item : {}
}

export function isCall(item: Fields): boolean {
  return item['type'] === 'function_call'
}

/**
 * The names of a call, in the order of trust: some servers make up a new item id for every event. Ids
 * of calls and of items are not told apart, because proxies send one under the name of the other.
 */
export function aliasesOf(notification: Fields, item: Fields): string[] {
  return [
    alias(ID, item['call_id'] ?? notification['call_id']),
    alias('index', notification['output_index']),
    alias(ID, item['id'] ?? notification['item_id'] ?? notification['id']),
  ].filter((name) => name !== undefined)
}

/** Whether an alias is an id, and not a place that another call can take. */
export function isId(name: string): boolean {
  return name.startsWith(`${ID}:`)
}

function alias(kind: string, value: unknown): string | undefined {
  if (typeof value !== 'number' && !isName(value)) return undefined
  return `${kind}:${value}`
}

/** What is said of a call, under any of the names in use. */
export function callFields(fields: Fields) {
  const nested = isRecord(fields['function']) ? fields['function'] : {}
  return {
    id: id(fields['call_id']),
    itemId: id(fields['item_id']) ?? id(fields['id']),
    name: text(fields['name']) ?? text(nested['name']),
    args: text(fields['arguments']) ?? text(nested['arguments']),
  }
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function id(value: unknown): string | undefined {
  return isName(value) ? value : undefined
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}
