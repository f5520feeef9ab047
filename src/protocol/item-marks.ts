/** What the id and the metadata of an item say about it. */
import { isRecord } from './json.ts'

/**
 * The id of the n-th input item of a run: an answer of the client's tools, or what was said before. Input items
 * stand in the log before the answer and are no part of it; the items of a provider have other ids.
 */
export function inputItemId(runId: string, place: number): string {
  return `${prefixOf(runId)}${place}`
}

/** Whether an item of this run is part of what was asked. */
export function isInputItem(runId: string, itemId: string): boolean {
  return itemId.startsWith(prefixOf(runId))
}

function prefixOf(runId: string): string {
  return `${runId}-input-`
}

/**
 * Whether a message says that the model will not answer: adapters note `refusal: true` among the
 * fields of their vendor.
 */
export function isRefusal(metadata: Record<string, unknown> | undefined): boolean {
  if (metadata === undefined) return false
  return Object.values(metadata).some((fields) => isRecord(fields) && fields['refusal'] === true)
}

/** The mark, in `provider_metadata`, of a call that the provider runs by itself. */
export const EXECUTED_BY_PROVIDER = 'provider'

/** Whether a call needs no answer from the client, because whoever made it also ran it. */
export function isExecutedByProvider(metadata: Record<string, unknown> | undefined): boolean {
  return metadata?.['executed_by'] === EXECUTED_BY_PROVIDER
}
