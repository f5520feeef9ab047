/*
 * What a turn was asked with besides its prompt: the answers of the client's tools, and what was said before,
 * where the client tells it. It stands in the log before the answer and is no part of it. Its ids say so: items
 * of a provider have others.
 */

/** The id of what came as the n-th. */
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
