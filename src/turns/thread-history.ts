import { START } from '../log/offsets.ts'
import type { TurnLog, TurnRecord } from '../log/turn-log.ts'
import { type ErrorCode, TurnstreamError } from '../protocol/errors.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import { type StoredTurn, storedItems } from './stored-items.ts'

/** The logs are gone, or the turn is: what it said is not to be known any more. */
const GONE: ReadonlySet<ErrorCode> = new Set(['TURN_DELETED', 'TURN_EXPIRED', 'TURN_UNKNOWN'])

/** What was said in the turns of a thread before this one, oldest first. */
export async function threadHistory(
  log: TurnLog,
  threadId: string,
  turnId: string,
  signal: AbortSignal,
): Promise<OutputItem[]> {
  const items: OutputItem[] = []
  for await (const turn of turnsOf(log, threadId)) {
    if (turn.turnId === turnId) break
    if (!turn.expired) items.push(...storedItems(await readTurn(log, turn.turnId, signal)))
    if (signal.aborted) break
  }
  return withoutOrphans(items)
}

async function* turnsOf(log: TurnLog, threadId: string): AsyncGenerator<TurnRecord, void> {
  let cursor: string | undefined
  do {
    const page = await log.listTurns(threadId, { limit: 200, ...(cursor && { cursor }) })
    yield* page.items
    cursor = page.nextCursor
  } while (cursor !== undefined)
}

async function readTurn(log: TurnLog, turnId: string, signal: AbortSignal): Promise<StoredTurn> {
  const texts: string[] = []
  try {
    for await (const record of log.tail(turnId, 'events', START, signal)) {
      if ('data' in record) texts.push(record.data)
    }
  } catch (error) {
    if (error instanceof TurnstreamError && GONE.has(error.code)) return []
    throw error
  }
  return texts
}

/** Of calls that are not known any more the answers mean nothing, and vendors refuse them. */
function withoutOrphans(items: readonly OutputItem[]): OutputItem[] {
  const calls = new Set<string>()
  return items.filter((item) => {
    if (item.type === 'function_call') calls.add(item.call_id)
    return item.type !== 'function_call_output' || calls.has(item.call_id)
  })
}
