import { START } from '../log/offsets.ts'
import type { Tail, TurnLog, TurnRecord } from '../log/turn-log.ts'
import { parseJsonSafe } from '../protocol/json.ts'
import type { Response } from '../protocol/response.ts'
import { isStreamEvent } from '../protocol/stream-event-guard.ts'
import { ResponseReducer } from '../reducer/response-reducer.ts'

/** What a turn has come to, by the events that its log holds now. */
export async function reducedRun(log: TurnLog, turn: TurnRecord): Promise<Response> {
  const stop = new AbortController()
  const tail = log.tail(turn.turnId, 'events', START, stop.signal)
  void tail.caughtUp.then(() => stop.abort())
  return reduced(tail, turn)
}

/** What a turn has come to at its end, or when `signal` aborts. */
export function followedRun(
  log: TurnLog,
  turn: TurnRecord,
  signal: AbortSignal,
): Promise<Response> {
  return reduced(log.tail(turn.turnId, 'events', START, signal), turn)
}

async function reduced(tail: Tail, turn: TurnRecord): Promise<Response> {
  const reducer = new ResponseReducer()
  for await (const record of tail) {
    const event = 'data' in record ? parseJsonSafe(record.data) : undefined
    if (isStreamEvent(event)) reducer.apply(event)
  }
  return withIds(reducer.response, turn)
}

/** Before its first event a response knows nothing of its turn. */
function withIds(response: Response, turn: TurnRecord): Response {
  if (response.turn_id !== '') return response
  const { turnId, runId, threadId, createdAt } = turn
  const created_at = response.created_at === 0 ? createdAt : response.created_at
  const updated_at = Math.max(response.updated_at, created_at)
  return { ...response, id: runId, turn_id: turnId, thread_id: threadId, created_at, updated_at }
}
