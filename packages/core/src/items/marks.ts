/** Properties of an item that its id and metadata encode. */
import { isInputItem } from '../protocol/item-ids.ts'
import { isRecord } from '../protocol/json.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'

/**
 * Returns whether the StreamProcessor should see an event. History is not emitted again. An output of the
 * client's tools completes the call of an earlier turn that it answers. Without one it stays hidden: a vendor
 * that reuses an id would have it matched to its new call.
 */
export function isForProcessor({ run_id, payload }: StreamEvent): boolean {
  if (payload.type !== 'item_start' && payload.type !== 'item_done') return true
  if (!isInputItem(run_id, payload.item_id)) return true
  return payload.type === 'item_done' && payload.answers !== undefined
}

/** Returns whether a message is a refusal. Adapters set `refusal: true` in the vendor's metadata. */
export function isRefusal(metadata: Record<string, unknown> | undefined): boolean {
  if (metadata === undefined) return false
  return Object.values(metadata).some((fields) => isRecord(fields) && fields['refusal'] === true)
}

/** Marks a call, in `provider_metadata`, that the provider runs itself. */
export const EXECUTED_BY_PROVIDER = 'provider'

/** Returns whether a call needs no result from the client because the provider ran it. */
export function isExecutedByProvider(metadata: Record<string, unknown> | undefined): boolean {
  return metadata?.['executed_by'] === EXECUTED_BY_PROVIDER
}
