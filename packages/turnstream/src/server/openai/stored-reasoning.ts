/** Reasoning that a client sends back by its id, without the data that its vendor needs. */

import { vendorData } from '@turnstream/core/internal/formats/issuer'
import { bareReasoningId } from '@turnstream/core/internal/formats/responses/request-items'
import type { HistoryItem } from '@turnstream/core/internal/formats/submission'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { hasCode, isTurnMissing } from '@turnstream/core/internal/protocol/errors'
import { runOfWireId, wireItemId } from '@turnstream/core/internal/protocol/item-ids'
import { eventsSoFar } from './stored-responses.ts'

/** Responses looked up per request. One contains the reasoning of all before it. */
export const MAX_RUNS = 64

/** Read of all these responses together. */
const MAX_READ_BYTES = 32 * 1024 * 1024

/** The field of `provider_metadata` with the id that the client knows an item of its input by. */
const ITEM_ID = 'item_id'

type Reasoning = Extract<HistoryItem, { type: 'reasoning' }>

/** Finds reasoning that a request names only by id. What is missing, damaged or beyond the limits is left out. */
export async function storedReasoning(
  log: TurnLog,
  input: unknown,
): Promise<Map<string, Reasoning>> {
  const found = new Map<string, Reasoning>()
  const ids = Array.isArray(input) ? input.map(bareReasoningId) : []
  const wanted = new Set(ids.filter((id) => id !== undefined).toReversed())
  const runs = new Set<string>()
  let room = MAX_READ_BYTES
  for (const id of wanted) {
    const runId = runOfWireId(id)
    if (runId === '' || runs.has(runId) || found.has(id)) continue
    if (room <= 0 || runs.size === MAX_RUNS) break
    runs.add(runId)
    room = await readRun(log, runId, { wanted, found, room })
  }
  return found
}

interface Search {
  readonly wanted: ReadonlySet<string>
  readonly found: Map<string, Reasoning>
  /** In bytes. */
  readonly room: number
}

/** Adds what a run contains, up to the last item of interest. Returns the room left. */
async function readRun(log: TurnLog, runId: string, search: Search): Promise<number> {
  const { wanted, found } = search
  let { room } = search
  try {
    const turn = await log.getTurnOfRun(runId)
    if (turn === undefined) return room
    for await (const { event, data } of eventsSoFar(log, turn.turnId)) {
      const { payload } = event
      room -= payload.type === 'item_delta' ? payload.delta_content.length : data.length
      if (room <= 0) break
      if (payload.type !== 'item_done' || payload.final_item.type !== 'reasoning') continue
      const { type, content, provider_metadata: metadata = {} } = payload.final_item
      const given = metadata[ITEM_ID]
      const id = typeof given === 'string' ? given : wireItemId(payload.item_id)
      if (!wanted.has(id) || found.has(id)) continue
      if (vendorData(payload.final_item) === undefined) continue
      // The response to this request contains it, and is the one that the next request is answered from.
      found.set(id, { type, content, provider_metadata: { ...metadata, [ITEM_ID]: id } })
      if (found.size === wanted.size) break
    }
  } catch (error) {
    if (!isTurnMissing(error) && !hasCode(error, 'STORE_CORRUPT')) throw error
  }
  return room
}
