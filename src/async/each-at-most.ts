/** Runs `task` for every item in order, at most `max` at a time. Rejects with the first failure. */
export async function eachAtMost<T>(
  items: readonly T[],
  max: number,
  task: (item: T) => Promise<void>,
): Promise<void> {
  const rest = items.values()
  const worker = async (): Promise<void> => {
    for (const item of rest) await task(item)
  }
  await Promise.all(Array.from({ length: Math.min(max, items.length) }, worker))
}
