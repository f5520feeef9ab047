import type { ProviderRequest, RunContext } from '../formats/provider-request.ts'
import type { Recording } from '../formats/v2/recording.ts'
import { EXECUTED_BY_PROVIDER } from '../items/marks.ts'
import { isInputItem } from '../protocol/item-ids.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { StreamEvent, StreamEventPayload } from '../protocol/stream-event.ts'
import type { Cassette, TimedEvent } from './cassette.ts'
import { callEvents, hasStream } from './layers.ts'

/**
 * A cassette as a recording for `createScriptedProvider`. Of recorded calls, each round of a turn plays the next one
 * that the provider accepted. Of a recorded turn, the first round plays all that the model and its tools did.
 */
export function cassetteRecording(
  cassette: Cassette,
): (request: ProviderRequest, run: RunContext) => Recording {
  // Times come from the cassette: the clock may have been set while it was recorded.
  const recordings = playedRounds(cassette).map((events) =>
    events.map(({ at, event }): StreamEvent => ({ ...event, timestamp: at })),
  )
  return (_request, { round = 1 }) => recordings[round - 1] ?? []
}

function playedRounds(cassette: Cassette): readonly (readonly TimedEvent[])[] {
  if (cassette.events.length > 0) return [modelEvents(cassette.events)]
  const accepted = cassette.calls.filter(hasStream)
  // A provider that accepted no call failed for the reason of its last call.
  const played = accepted.length > 0 ? accepted : cassette.calls.slice(-1)
  return played.map((call) => {
    const [first, ...rest] = callEvents(cassette, call)
    // The wait for the first token counts from the request.
    return first === undefined ? [] : [{ ...first, at: call.at }, ...rest]
  })
}

/** Leaves out the input, which the new turn brings itself, and approvals: nothing waits for them. */
function modelEvents(events: readonly TimedEvent[]): TimedEvent[] {
  const input = new Set<string>()
  const answered = new Set<string>()
  for (const { event } of events) {
    const { payload, run_id } = event
    if (!('item_id' in payload)) continue
    const item = payload.type === 'item_done' ? payload.final_item : undefined
    const isUser =
      (item !== undefined && 'origin' in item && item.origin === 'user') ||
      (payload.type === 'item_start' && payload.origin === 'user')
    const isApproval = item?.type === 'approval_request' || item?.type === 'approval_response'
    if (isUser || isApproval || isInputItem(run_id, payload.item_id)) input.add(payload.item_id)
    else if (item?.type === 'function_call_output') answered.add(item.call_id)
  }
  return events.flatMap(({ at, event }) => {
    const { payload } = event
    if ('item_id' in payload && input.has(payload.item_id)) return []
    return [{ at, event: { ...event, payload: runByProvider(payload, answered) } as StreamEvent }]
  })
}

/** Marks calls with an output as run by the provider: their tools are not run again. */
function runByProvider(
  payload: StreamEventPayload,
  answered: ReadonlySet<string>,
): StreamEventPayload {
  if (payload.type !== 'item_done') return payload
  const { final_item: item } = payload
  if (item.type !== 'function_call' && item.type !== 'function_call_output') return payload
  if (!answered.has(item.call_id)) return payload
  const provider_metadata = { ...item.provider_metadata, executed_by: EXECUTED_BY_PROVIDER }
  const final_item: OutputItem = { ...item, provider_metadata }
  if (final_item.type === 'function_call') delete final_item.approval
  return { ...payload, final_item }
}
