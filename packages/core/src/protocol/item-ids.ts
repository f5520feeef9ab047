/** The ids of items. Each names the item's run and its place there. */

const PROMPT = 'user-prompt'

/** The id of the n-th item of a response. */
export function outputItemId(runId: string, place: number): string {
  return `${runId}:${place}`
}

/** Generates the ids of a response's items, after the first `count`. */
export function outputItemIds(runId: string, count = 0): () => string {
  let place = count
  return () => {
    place += 1
    return outputItemId(runId, place)
  }
}

/** Returns whether an item is part of the run's response. */
export function isOutputItem(runId: string, itemId: string): boolean {
  return itemId.startsWith(`${runId}:`)
}

/**
 * Returns the id of the n-th input item of a run: a result of the client's tools, or an earlier message.
 * Input items precede the response in the log and are not part of it. Provider items have other ids.
 */
export function inputItemId(runId: string, place: number): string {
  return `${runId}-input-${place}`
}

/** Returns whether an item is part of the run's input, except for a prompt. */
export function isInputItem(runId: string, itemId: string): boolean {
  return itemId.startsWith(`${runId}-input-`)
}

/** Returns the id of the n-th message of a run's prompt. Without `PROMPT`, which clients need not bundle. */
export const promptItemId = (runId: string, place: number): string =>
  `${runId}-user-prompt${place > 1 ? `-${place}` : ''}`

/** Returns whether a message is the user's. Adapters may open it with another origin, but its id is reliable. */
export function isPromptItem(itemId: string): boolean {
  return itemId.includes(PROMPT)
}

/** Returns whether an item is part of the prompt or any other input of the run. */
export function isGivenItem(runId: string, itemId: string): boolean {
  return isInputItem(runId, itemId) || itemId.startsWith(promptItemId(runId, 1))
}

/** Returns an item id as OpenAI's clients see it, without its prefix. */
export function wireItemId(itemId: string): string {
  return itemId.replaceAll(/[^\w-]/g, '_')
}

/** Returns the run of an item id as OpenAI's clients see it. */
export function runOfWireId(wireId: string): string {
  return wireId.replace(new RegExp(`-(?:input-\\d+|${PROMPT}(?:-\\d+)?)$|_\\d+$`), '')
}
