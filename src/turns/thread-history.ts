import { isSliceOver, nextSlice } from '../async/time-slice.ts'
import type { TurnLog, TurnRecord } from '../log/turn-log.ts'
import { type ErrorCode, TurnstreamError } from '../protocol/errors.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import { isExecutedByProvider } from '../protocol/tool-execution.ts'
import { estimateTokens, type InputSize } from './input-size.ts'
import { withoutMark } from './registry-mark.ts'
import { readStoredItems, type StoredItems } from './stored-items.ts'

/** The logs are gone, or the turn is: what it said is not to be known any more. */
const GONE: ReadonlySet<ErrorCode> = new Set(['TURN_DELETED', 'TURN_EXPIRED', 'TURN_UNKNOWN'])

/** However small they are: each is a read of the store. */
const MAX_TURNS = 1000

const PAGE = 50

const NO_ITEMS: StoredItems = { items: [], bytes: 0 }

export interface HistoryRequest {
  readonly log: TurnLog
  readonly threadId: string
  /** The turn that the history is for. */
  readonly turnId: string
  /** The items that follow the history. */
  readonly input: readonly OutputItem[]
  readonly room: InputSize
  readonly signal: AbortSignal
}

export interface ThreadHistory {
  /** Oldest first. */
  readonly items: readonly OutputItem[]
  /** How many of the oldest turns were left out for lack of room, deleted and expired ones included. */
  readonly turnsDropped: number
}

/**
 * The items of the thread before a turn, as a provider is sent them. Reads the newest turns first. The first
 * turn that does not fit is left out whole, and so are all before it.
 */
export async function threadHistory(request: HistoryRequest): Promise<ThreadHistory> {
  const { log, signal, input } = request
  let { bytes, tokens } = request.room
  const turns: (readonly OutputItem[])[] = []
  let turnsDropped = 0
  for await (const turn of earlierTurns(request)) {
    if (isSliceOver()) await nextSlice()
    // Turns of a thread end, and so expire, in their order.
    if (turn.expired || signal.aborted) break
    const stored = turns.length < MAX_TURNS ? await readTurn(log, turn, bytes, signal) : undefined
    bytes -= stored?.bytes ?? 0
    tokens -= estimateTokens(stored?.items ?? [])
    if (stored === undefined || bytes < 0 || tokens < 0) {
      turnsDropped = turn.ordinal
      break
    }
    turns.push(stored.items)
  }
  const items = turns.toReversed().flat()
  return { items: pairedItems(items.map(withoutMark), input), turnsDropped }
}

/** The turns before the one of the request, newest first. */
async function* earlierTurns({
  log,
  threadId,
  turnId,
}: HistoryRequest): AsyncGenerator<TurnRecord, void> {
  let isEarlier = false
  let cursor: string | undefined
  do {
    const page = await log.listTurns(threadId, {
      first: 'newest',
      limit: PAGE,
      ...(cursor !== undefined && { cursor }),
    })
    for (const turn of page.items) {
      if (isEarlier) yield turn
      else isEarlier = turn.turnId === turnId
    }
    cursor = page.nextCursor
  } while (cursor !== undefined)
}

/** Undefined for a turn of more than `maxBytes`. */
async function readTurn(
  log: TurnLog,
  turn: TurnRecord,
  maxBytes: number,
  signal: AbortSignal,
): Promise<StoredItems | undefined> {
  try {
    return await readStoredItems(log, turn, maxBytes, signal)
  } catch (error) {
    if (error instanceof TurnstreamError && GONE.has(error.code)) return NO_ITEMS
    throw error
  }
}

/**
 * Without calls that have no output and outputs that have no call, which vendors refuse. Calls that a vendor
 * ran itself stay, unless they failed. If a call id was used again, the newest call gets the output.
 */
function pairedItems(items: readonly OutputItem[], input: readonly OutputItem[]): OutputItem[] {
  const unanswered = new Map<string, OutputItem[]>()
  const paired = new Set<OutputItem>()
  for (const item of [...items, ...input]) {
    if (item.type === 'function_call') {
      const calls = unanswered.get(item.call_id)
      if (calls === undefined) unanswered.set(item.call_id, [item])
      else calls.push(item)
    } else if (item.type === 'function_call_output') {
      const call = unanswered.get(item.call_id)?.pop()
      if (call !== undefined) paired.add(call).add(item)
    }
  }
  return items.filter((item) => {
    if (item.type !== 'function_call' && item.type !== 'function_call_output') return true
    return paired.has(item) || isRunByVendor(item)
  })
}

function isRunByVendor(item: OutputItem): boolean {
  const isFailed = 'error' in item || 'cancelled' in item
  return !isFailed && isExecutedByProvider(item.provider_metadata)
}
