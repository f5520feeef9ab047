import type * as z from 'zod'
import { isSliceOver, nextSlice } from '../async/time-slice.ts'
import { START } from '../log/offsets.ts'
import type { TurnLog, TurnPageOptions, TurnRecord, TurnSnapshot } from '../log/turn-log.ts'
import { type ErrorCode, hasCode, TurnstreamError } from '../protocol/errors.ts'
import { encodePage } from './pages.ts'
import type { threadOutputsSchema, turnOutputsSchema } from './schemas/outputs.ts'
import type { WrittenJson } from './written-json.ts'

type TurnOutputs = WrittenJson<z.infer<typeof turnOutputsSchema>>
type ThreadOutputs = WrittenJson<z.infer<typeof threadOutputsSchema>>

/** A turn, the snapshots as the store has them. TURN_UNKNOWN or TURN_EXPIRED. */
export async function turnOutputs(log: TurnLog, turnId: string): Promise<TurnOutputs> {
  const turn = await log.getTurn(turnId)
  if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
  return { bytes: Buffer.concat(await encoded(turn, await log.snapshot(turnId))) }
}

/** The turns of a thread, as many as fit into a page. THREAD_UNKNOWN. */
export async function threadOutputs(
  log: TurnLog,
  threadId: string,
  options: TurnPageOptions,
): Promise<ThreadOutputs> {
  const thread = await log.getThread(threadId)
  if (thread === undefined) throw new TurnstreamError('THREAD_UNKNOWN', threadId)
  const bytes = await encodePage(options, {
    head: `{"threadId":${JSON.stringify(threadId)},"turns":[`,
    list: (page) => log.listTurns(threadId, page),
    encode: (turn) => listedOutputs(log, turn),
  })
  return { bytes }
}

/** Nothing for a turn that was deleted since it was listed. */
async function listedOutputs(log: TurnLog, turn: TurnRecord): Promise<Buffer<ArrayBuffer>[]> {
  if (turn.expired) return [expired(turn)]
  try {
    return await encoded(turn, await log.snapshot(turn.turnId))
  } catch (error) {
    if (hasCode(error, 'TURN_EXPIRED')) return [expired(turn)]
    if (GONE.some((code) => hasCode(error, code))) return []
    throw error
  }
}

const GONE: readonly ErrorCode[] = ['TURN_UNKNOWN', 'TURN_DELETED']

/** One record at a time, because a turn may have thousands. */
async function encoded(
  turn: TurnRecord,
  { records, offset, sealed }: TurnSnapshot,
): Promise<Buffer<ArrayBuffer>[]> {
  const parts = [Buffer.from(`${head(turn, { sealed, offset })},"outputs":[`)]
  for (const [index, { data }] of records.entries()) {
    if (isSliceOver()) await nextSlice()
    parts.push(Buffer.from(index === 0 ? data : `,${data}`))
  }
  parts.push(Buffer.from(']}'))
  return parts
}

function expired(turn: TurnRecord): Buffer<ArrayBuffer> {
  return Buffer.from(`${head(turn, { sealed: true, offset: START, expired: true })},"outputs":[]}`)
}

/** The object but for its end. */
function head({ turnId, threadId }: TurnRecord, fields: Record<string, unknown>): string {
  return JSON.stringify({ turnId, threadId, ...fields }).slice(0, -1)
}
