/** What a source of events may leave out or spell differently, put into the form of the schema. */
import { isRecord } from './json.ts'
import type { OutputItem } from './output-item.ts'
import type { StreamEventType } from './stream-event.ts'
import type { Usage } from './usage.ts'

type Fields = Record<string, unknown>

export interface LenientOptions {
  /** The `item_type` of the `item_start` of an item, if there was one. */
  readonly startedType?: (itemId: string) => OutputItem['type'] | undefined
  /** Called when `usage` is malformed and therefore dropped. */
  readonly onUsageDropped?: () => void
}

/** The event with its payload normalized. The event itself when there is nothing to do. */
export function normalizeEvent(event: unknown, options: LenientOptions = {}): unknown {
  if (!isRecord(event) || event['type'] === 'item_delta') return event
  const { payload } = event
  const normalized = normalizePayload(payload, options)
  return normalized === payload ? event : { ...event, payload: normalized }
}

/**
 * The payload with `final_item` completed and `usage` in our spelling, or without it when it is malformed. Other
 * faults stay. The payload itself when there is nothing to do.
 */
export function normalizePayload(payload: unknown, options: LenientOptions = {}): unknown {
  if (!isRecord(payload)) return payload
  if (payload['type'] === 'item_done') return completeItem(payload, options)
  return HAS_USAGE.has(payload['type']) ? normalizeUsage(payload, options) : payload
}

const HAS_USAGE: ReadonlySet<unknown> = new Set<StreamEventType>([
  'usage_update',
  'response_done',
  'response_error',
  'turn_aborted_by_user',
])

function completeItem(payload: Fields, { startedType }: LenientOptions): Fields {
  const { item_id: itemId, final_item: item } = payload
  if (!isRecord(item)) return payload
  const missing: Fields = {}
  if (item['id'] === undefined) missing['id'] = itemId
  const type = item['type'] ?? (isString(itemId) ? startedType?.(itemId) : undefined)
  const known = type ?? typeByFields(item)
  if (known !== item['type']) missing['type'] = known
  if (known === 'message' && item['origin'] === undefined) missing['origin'] = 'agent'
  for (const _ in missing) return { ...payload, final_item: { ...item, ...missing } }
  return payload
}

/** For an item that was never started. Reasoning cannot be told from a message. */
function typeByFields(item: Fields): OutputItem['type'] | undefined {
  if (isString(item['content'])) return 'message'
  if (isString(item['arguments'])) return 'function_call'
  if (isString(item['output'])) return 'function_call_output'
  if (isString(item['code'])) return 'error'
  return undefined
}

function normalizeUsage(payload: Fields, { onUsageDropped }: LenientOptions): Fields {
  if (!('usage' in payload) || isUsage(payload['usage'])) return payload
  const { usage, ...rest } = payload
  const renamed = isRecord(usage) ? renameCounts(usage) : undefined
  if (isUsage(renamed)) return { ...rest, usage: renamed }
  onUsageDropped?.()
  return rest
}

function renameCounts({ prompt, completion, total, ...rest }: Fields): Fields {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total, ...rest }
}

export function isUsage(value: unknown): value is Usage {
  if (!isRecord(value)) return false
  const { prompt_tokens, completion_tokens, total_tokens } = value
  if (!isCount(prompt_tokens) || !isCount(completion_tokens) || !isCount(total_tokens)) return false
  if ('estimated' in value && typeof value['estimated'] !== 'boolean') return false
  return OPTIONAL_COUNTS.every((name) => !(name in value) || isCount(value[name]))
}

const OPTIONAL_COUNTS = ['cached_tokens', 'cache_write_tokens', 'reasoning_tokens']

function isCount(value: unknown): boolean {
  return typeof value === 'number' && value >= 0 && value < Infinity
}

function isString(value: unknown): value is string {
  return typeof value === 'string'
}
