/** Runs a task at the first call. Later calls return what it returned. */
export function once<T>(task: () => T): () => T {
  let first: { readonly result: T } | undefined
  return () => {
    first ??= { result: task() }
    return first.result
  }
}
