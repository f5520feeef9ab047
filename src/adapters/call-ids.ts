// Some vendors refuse ids of more than 40 characters, and any that are not made of these.
const RUN_CHARS = 24
const NOT_OF_AN_ID = /[^a-zA-Z0-9]/g

/** Ids for calls that came without one: the same for the same run, different from those of any other. */
export function callIdsOf(runId: string): () => string {
  const run = runId.replaceAll(NOT_OF_AN_ID, '').slice(-RUN_CHARS)
  let next = 0
  return () => {
    next += 1
    return `call_${run}_${next}`
  }
}
