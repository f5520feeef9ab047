import type { Hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import type { ResponsesBody } from '@turnstream/core/internal/formats/responses/schemas'
import type { ResponsesItem } from '@turnstream/core/internal/formats/responses/wire'
import { ResponsesEncoder } from '@turnstream/core/internal/formats/responses/write'
import type { TurnLog, TurnRecord } from '@turnstream/core/internal/log/turn-log'
import { isTurnMissing } from '@turnstream/core/internal/protocol/errors'
import { isRecord } from '@turnstream/core/internal/protocol/json'
import { isStreamEvent } from '@turnstream/core/internal/protocol/stream-event-guard'
import { eventsSoFar } from './stored-responses.ts'

/*
 * When codex is cut off, it repeats its request with the items that it has received at the end of the input. Such a
 * request gets the rest of the turn.
 */

/** At the end of a request. With the whole request, as many notes as can be read at once. */
export const MAX_RETURNED = 63

/** The keys of a request: whole, and in a session without its last items, one by one, if an answer may have them. */
export async function repetitionKeys(
  hash: Hash,
  { input, ...rest }: ResponsesBody,
  isInSession: boolean,
): Promise<string[]> {
  hash.update(JSON.stringify({ ...rest, client_metadata: sortedEntries(rest['client_metadata']) }))
  const items = itemsOf(input)
  const first = items.length - (isInSession ? countReturnable(items) : 0)
  const keys: string[] = []
  for (const [index, item] of items.entries()) {
    if (isSliceOver()) await nextSlice()
    if (index >= first) keys.push(hash.copy().digest('base64url'))
    hash.update(`\n${JSON.stringify(item)}`)
  }
  return [...keys, hash.digest('base64url')].toReversed()
}

/** The last `count` items of a request. */
export function lastItems({ input }: ResponsesBody, count: number): readonly unknown[] {
  const items = itemsOf(input)
  return items.slice(items.length - count)
}

function itemsOf(input: ResponsesBody['input']): readonly unknown[] {
  return typeof input === 'string' ? [input] : input
}

/** codex writes them in another order each time. */
function sortedEntries(members: unknown): unknown {
  if (!isRecord(members)) return members
  return Object.entries(members).toSorted(([a], [b]) => (a < b ? -1 : 1))
}

/** The request that started a turn has at least one item. */
function countReturnable(items: readonly unknown[]): number {
  const last = items.findLastIndex((item) => describe(item) === undefined)
  return Math.min(items.length - 1 - Math.max(last, 0), MAX_RETURNED)
}

/** Returns the ids of the items that a client returned, if they are the first that the turn has finished. */
export async function receivedItems(
  log: TurnLog,
  { turnId, createdAt }: TurnRecord,
  returned: readonly unknown[],
): Promise<ReadonlySet<string> | undefined> {
  const ids = new Set<string>()
  const encoder = new ResponsesEncoder({ turnId, createdAt, model: '' })
  try {
    for await (const item of finishedItems(log, encoder, turnId)) {
      if (!isSame(item, returned[ids.size])) return undefined
      ids.add(item.id)
      if (ids.size === returned.length) return ids
    }
  } catch (error) {
    if (!isTurnMissing(error)) throw error
  }
  return undefined
}

async function* finishedItems(
  log: TurnLog,
  encoder: ResponsesEncoder,
  turnId: string,
): AsyncGenerator<ResponsesItem, void> {
  for await (const { event } of eventsSoFar(log, turnId)) {
    if (!isStreamEvent(event)) continue
    for (const each of encoder.encode(event)) {
      if (each.type === 'response.output_item.done') yield each.item
    }
  }
}

function isSame(sent: unknown, returned: unknown): boolean {
  const [one, other] = [describe(sent), describe(returned)]
  if (one === undefined || other === undefined) return false
  // codex returns summaries, but no other text of reasoning.
  const isTextLess = other['type'] === 'reasoning' && other['text'] === ''
  return isDeepStrictEqual(isTextLess ? { ...one, text: '' } : one, other)
}

/** What a client returns of an item, whatever it does with the rest. Undefined if no answer has such an item. */
function describe(item: unknown): Readonly<Record<string, unknown>> | undefined {
  if (!isRecord(item)) return undefined
  const { type, role, summary, content, call_id: callId, name, namespace = null } = item
  switch (type) {
    case 'message':
      return role === 'assistant' ? { type, text: textOf(content) } : undefined
    case 'reasoning':
      return {
        type,
        text: textOf(summary) + textOf(content),
        blob: item['encrypted_content'] ?? null,
      }
    case 'function_call':
      return { type, callId, name, namespace, text: item['arguments'] }
    case 'custom_tool_call':
      return { type, callId, name, namespace, text: item['input'] }
    default:
      return undefined
  }
}

function textOf(parts: unknown): string {
  if (typeof parts === 'string') return parts
  const texts = (Array.isArray(parts) ? parts : [])
    .filter(isRecord)
    .map(({ text, refusal }) => text ?? refusal)
  return texts.filter((text) => typeof text === 'string').join('')
}
