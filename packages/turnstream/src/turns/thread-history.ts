import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import { isExecutedByProvider } from '@turnstream/core/internal/items/marks'
import { textOf } from '@turnstream/core/internal/items/text'
import type {
  EventRecord,
  ListedTurn,
  Resync,
  TurnLog,
  TurnRecord,
} from '@turnstream/core/internal/log/turn-log'
import { estimateTokensOfLength } from '@turnstream/core/internal/processor/options'
import { isTurnMissing, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { isRecord, parseJsonSafe, withoutUndefined } from '@turnstream/core/internal/protocol/json'
import type { OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type { ResponseItem } from '@turnstream/core/internal/protocol/response'
import { isStreamEvent } from '@turnstream/core/internal/protocol/stream-event-guard'
import { ResponseReducer } from '@turnstream/core/internal/reducer/reduce'
import { START } from '../log/offsets.ts'
import { withoutMark } from './tools.ts'
import type { TurnCaps } from './turn-items.ts'

/** Regardless of size: each turn is a read of the store. */
export const MAX_TURNS = 1000

const PAGE = 50

const NO_ITEMS: StoredItems = { items: [], bytes: 0, isStart: false }

export interface HistoryRequest extends EarlierTurns {
  readonly input: readonly OutputItem[]
  readonly room: InputSize
  readonly signal: AbortSignal
}

export interface ThreadHistory {
  /** Oldest first. */
  readonly items: readonly OutputItem[]
  /** How many of the oldest turns did not fit, including deleted and expired ones. */
  readonly turnsDropped: number
}

export const NO_HISTORY: ThreadHistory = { items: [], turnsDropped: 0 }

/**
 * Returns what the provider is sent of the thread before a turn. The newest turn that does not fit is left out, with all
 * earlier ones. A turn whose caller gave the history contains everything before it.
 */
export async function threadHistory(request: HistoryRequest): Promise<ThreadHistory> {
  const { log, signal, input } = request
  let { bytes, tokens } = request.room
  const turns: (readonly OutputItem[])[] = []
  let turnsDropped = 0
  for await (const turn of earlierTurns(request)) {
    if (isSliceOver()) await nextSlice()
    if (turn.damaged) throw new TurnstreamError('STORE_CORRUPT', `turn ${turn.turnId} is damaged`)
    if (isEndOfHistory(turn) || signal.aborted) break
    const stored =
      turns.length < MAX_TURNS ? await readStoredItems(log, turn, bytes, signal) : undefined
    bytes -= stored?.bytes ?? 0
    tokens -= estimateTokens(stored?.items ?? [])
    if (stored === undefined || bytes < 0 || tokens < 0) {
      turnsDropped = turn.ordinal
      break
    }
    turns.push(stored.items)
    if (stored.isStart) break
  }
  const items = turns.toReversed().flat()
  return { items: pairedItems(items.map(withoutMark), input), turnsDropped }
}

/** Returns whether this and all earlier turns have expired. A turn whose content was deleted early is only a gap. */
export function isEndOfHistory({ expired, contentMs }: TurnRecord): boolean {
  return expired && contentMs === undefined
}

export interface EarlierTurns {
  readonly log: TurnLog
  readonly threadId: string
  /** The turn that follows them; without it, all turns of the thread. */
  readonly turnId?: string | undefined
}

export async function* earlierTurns({
  log,
  threadId,
  turnId,
}: EarlierTurns): AsyncGenerator<ListedTurn, void> {
  let isEarlier = turnId === undefined
  let cursor: string | undefined
  do {
    const options = withoutUndefined({ cursor })
    const page = await log.listTurns(threadId, { first: 'newest', limit: PAGE, ...options })
    for (const turn of page.items) {
      if (isEarlier) yield turn
      else isEarlier = turn.turnId === turnId
    }
    cursor = page.nextCursor
  } while (cursor !== undefined)
}

/** Removes what vendors reject: approvals, and calls and outputs without the other, unless a vendor ran the call. */
function pairedItems(items: readonly OutputItem[], input: readonly OutputItem[]): OutputItem[] {
  const unanswered = new Map<string, OutputItem[]>()
  const paired = new Set<OutputItem>()
  for (const item of [...items, ...input]) {
    if (item.type === 'function_call') {
      // If a call id was reused, the newest call gets the output.
      const calls = unanswered.get(item.call_id) ?? []
      calls.push(item)
      unanswered.set(item.call_id, calls)
    } else if (item.type === 'function_call_output') {
      const call = unanswered.get(item.call_id)?.pop()
      if (call !== undefined) paired.add(call).add(item)
    }
  }
  return items.filter((item) => {
    if (item.type === 'approval_request' || item.type === 'approval_response') return false
    if (item.type !== 'function_call' && item.type !== 'function_call_output') return true
    const isFailed = 'error' in item || 'cancelled' in item
    return paired.has(item) || (!isFailed && isExecutedByProvider(item.provider_metadata))
  })
}

export interface StoredItems {
  readonly items: readonly ResponseItem[]
  /** As JSON. */
  readonly bytes: number
  /** The items include the history that the caller gave. */
  readonly isStart: boolean
}

/**
 * Returns the items of an ended turn, none if it is gone; undefined if they exceed `maxBytes`. Little more than that is
 * ever read.
 */
export async function readStoredItems(
  log: TurnLog,
  turn: TurnRecord,
  maxBytes: number,
  signal: AbortSignal,
): Promise<StoredItems | undefined> {
  const { turnId, responseBytes, expired } = turn
  if (expired) return NO_ITEMS
  try {
    if (responseBytes === undefined) return await reduceEvents(log, turnId, maxBytes, signal)
    if (responseBytes > maxBytes) return undefined
    const text = await log.getResponse(turnId)
    // Deleted since it was listed.
    if (text === undefined) return NO_ITEMS
    const response = parseJsonSafe(text)
    if (!isRecord(response) || !Array.isArray(response['output_items'])) {
      return await reduceEvents(log, turnId, maxBytes, signal)
    }
    const isStart = response['history_given'] === true
    return { items: response['output_items'] as ResponseItem[], bytes: responseBytes, isStart }
  } catch (error) {
    if (isTurnMissing(error)) return NO_ITEMS
    throw error
  }
}

/** For turns without a Response. Deltas are read in a second pass, only for items that have no `item_done`. */
async function reduceEvents(
  log: TurnLog,
  turnId: string,
  maxBytes: number,
  signal: AbortSignal,
): Promise<StoredItems | undefined> {
  const read = () => log.tail(turnId, 'events', START, signal)
  const finished = await reducePass(read(), maxBytes, new Set())
  if (finished === undefined || finished.unfinished.size === 0) return finished
  return reducePass(read(), maxBytes, finished.unfinished)
}

/** Reads the items of `tail`, with the deltas of `grown`, by default all. Undefined when they exceed `maxBytes`. */
export async function reducePass(
  tail: AsyncIterable<EventRecord | Resync>,
  maxBytes: number,
  grown?: ReadonlySet<string>,
): Promise<(StoredItems & { readonly unfinished: ReadonlySet<string> }) | undefined> {
  const reducer = new ResponseReducer()
  const unfinished = new Set<string>()
  let bytes = 0
  for await (const record of tail) {
    if (isSliceOver()) await nextSlice()
    if (!('event' in record)) continue
    const { event } = record
    const isNeeded = event.type !== 'item_delta' || grown?.has(event.payload.item_id) !== false
    if (!isNeeded || !isStreamEvent(event)) continue
    bytes += event.type === 'item_delta' ? event.payload.delta_content.length : record.data.length
    if (bytes > maxBytes) return undefined
    reducer.apply(event)
    if (event.type === 'item_start') unfinished.add(event.payload.item_id)
    else if (event.type === 'item_done') unfinished.delete(event.payload.item_id)
  }
  const { output_items: items, history_given: isStart = false } = reducer.response
  return { items, bytes, isStart, unfinished }
}

export interface InputSize {
  /** As JSON in UTF-8. */
  readonly bytes: number
  /** Estimated from the length of the text. */
  readonly tokens: number
}

// Typical vendor charge for an image of about one megapixel. The base64 length does not predict its tokens.
const TOKENS_PER_ATTACHMENT = 1000

/** Returns the room that the turn's own input leaves for history. INPUT_TOO_LARGE if the input never fits. */
export function historyRoom(input: readonly OutputItem[], caps: TurnCaps): InputSize {
  const { maxHistoryBytes, maxHistoryTokens } = caps
  const bytes = maxHistoryBytes - sizeOf(input)
  const tokens = maxHistoryTokens - estimateTokens(input)
  if (bytes < 0) throw tooLarge(maxHistoryBytes - bytes, 'bytes', maxHistoryBytes)
  if (tokens < 0) throw tooLarge(maxHistoryTokens - tokens, 'tokens', maxHistoryTokens)
  return { bytes, tokens }
}

/** Longer texts are not encoded for their size: the characters of some take six in JSON, and a hundred times as long. */
const LONG_CHARS = 4096

/** About the size as JSON. */
function sizeOf(input: readonly OutputItem[]): number {
  let longBytes = 0
  const json = JSON.stringify(input, (_key, value: unknown) => {
    if (typeof value !== 'string' || value.length < LONG_CHARS) return value
    longBytes += Buffer.byteLength(value)
    return ''
  })
  return longBytes + Buffer.byteLength(json)
}

function tooLarge(size: number, unit: string, max: number): TurnstreamError {
  return new TurnstreamError('INPUT_TOO_LARGE', `about ${size} ${unit}; the limit is ${max}`)
}

export function estimateTokens(items: readonly OutputItem[]): number {
  let tokens = 0
  for (const item of items) {
    const name = item.type === 'function_call' ? item.name : ''
    const attachments = item.type === 'message' ? (item.attachments?.length ?? 0) : 0
    tokens += estimateTokensOfLength(name.length + textOf(item).length)
    tokens += attachments * TOKENS_PER_ATTACHMENT
  }
  return tokens
}
