interface Timing {
  readonly submitted: number
  firstWords?: number
  end?: number
}

/** Of the turns that were submitted on this page, in ms of its clock. */
const timings = new Map<string, Timing>()

export function noteSubmit(turnId: string): void {
  timings.set(turnId, { submitted: performance.now() })
}

export function noteFirstWords(turnId: string): void {
  const timing = timings.get(turnId)
  if (timing !== undefined) timing.firstWords ??= performance.now()
}

export function noteEnd(turnId: string): void {
  const timing = timings.get(turnId)
  if (timing !== undefined) timing.end ??= performance.now()
}

/** What the person has waited for on this page, from the submit on: `first words after 0.3 s of 2.1 s`. */
export function describeWait(turnId: string): string | undefined {
  const { submitted, firstWords, end } = timings.get(turnId) ?? {}
  if (submitted === undefined || end === undefined) return undefined
  const seconds = (time: number) => `${((time - submitted) / 1000).toFixed(1)} s`
  return firstWords === undefined
    ? seconds(end)
    : `first words after ${seconds(firstWords)} of ${seconds(end)}`
}
