/** When turns were submitted on this page and when their first text was shown, in ms of this page's clock. */
const timings = new Map<string, { readonly submitted: number; first?: number }>()

export function noteSubmit(turnId: string): void {
  timings.set(turnId, { submitted: performance.now() })
}

export function noteFirstToken(turnId: string): void {
  const timing = timings.get(turnId)
  if (timing !== undefined) timing.first ??= performance.now()
}

/** In seconds, for turns that were submitted on this page. */
export function timeToFirstToken(turnId: string): number | undefined {
  const timing = timings.get(turnId)
  return timing?.first === undefined ? undefined : (timing.first - timing.submitted) / 1000
}
