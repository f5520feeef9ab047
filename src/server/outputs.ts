import type * as z from 'zod'
import { START } from '../log/offsets.ts'
import type { TurnLog, TurnPageOptions, TurnRecord, TurnSnapshot } from '../log/turn-log.ts'
import { type ErrorCode, hasCode, TurnstreamError } from '../protocol/errors.ts'
import type { threadOutputsSchema, turnOutputsSchema } from './schemas/outputs.ts'
import type { WrittenJson } from './written-json.ts'

type TurnOutputs = WrittenJson<z.infer<typeof turnOutputsSchema>>
type ThreadOutputs = WrittenJson<z.infer<typeof threadOutputsSchema>>

/** A turn may come to 10 million characters: a page of many such would be no answer any more. */
const MAX_PAGE_CHARS = 8_000_000

/** A turn, the snapshots as the store has them. TURN_UNKNOWN or TURN_EXPIRED. */
export async function turnOutputs(log: TurnLog, turnId: string): Promise<TurnOutputs> {
  const turn = await log.getTurn(turnId)
  if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
  return written(turn, await log.snapshot(turnId))
}

/** The turns of a thread, as many as fit into a page. THREAD_UNKNOWN. */
export async function threadOutputs(
  log: TurnLog,
  threadId: string,
  options: TurnPageOptions,
): Promise<ThreadOutputs> {
  const thread = await log.getThread(threadId)
  if (thread === undefined) throw new TurnstreamError('THREAD_UNKNOWN', threadId)
  const page = await log.listTurns(threadId, options)
  const texts: string[] = []
  let { nextCursor } = page
  let chars = 0
  for (const [index, turn] of page.items.entries()) {
    const text = await listedOutputs(log, turn)
    texts.push(...text)
    chars += text[0]?.length ?? 0
    const taken = index + 1
    if (chars > MAX_PAGE_CHARS && taken < page.items.length) {
      // Only the store makes cursors.
      nextCursor = (await log.listTurns(threadId, { ...options, limit: taken })).nextCursor
      break
    }
  }
  const next = nextCursor === undefined ? '' : `,"nextCursor":${JSON.stringify(nextCursor)}`
  const text = `{"threadId":${JSON.stringify(threadId)},"turns":[${texts.join(',')}]${next}}`
  return { text }
}

/** Nothing for a turn that was deleted since it was listed. */
async function listedOutputs(log: TurnLog, turn: TurnRecord): Promise<string[]> {
  if (turn.expired) return [expired(turn)]
  try {
    return [written(turn, await log.snapshot(turn.turnId)).text]
  } catch (error) {
    if (hasCode(error, 'TURN_EXPIRED')) return [expired(turn)]
    if (GONE.some((code) => hasCode(error, code))) return []
    throw error
  }
}

const GONE: readonly ErrorCode[] = ['TURN_UNKNOWN', 'TURN_DELETED']

function written(turn: TurnRecord, { records, offset, sealed }: TurnSnapshot): TurnOutputs {
  const outputs = records.map(({ data }) => data).join(',')
  return { text: `${head(turn, { sealed, offset })},"outputs":[${outputs}]}` }
}

function expired(turn: TurnRecord): string {
  return `${head(turn, { sealed: true, offset: START, expired: true })},"outputs":[]}`
}

/** The object but for its end. */
function head({ turnId, threadId }: TurnRecord, fields: Record<string, unknown>): string {
  return JSON.stringify({ turnId, threadId, ...fields }).slice(0, -1)
}
