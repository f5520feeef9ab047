import { type Check, fail, ok, skipped, warn } from './check.ts'

/** What somebody else's clock said at a moment of ours. */
export interface ClockReading {
  readonly source: string
  readonly theirs: number
  /** By our clock, from the question to the answer. */
  readonly from: number
  readonly to: number
  /** How coarse it is: the `date` of an answer has whole seconds. */
  readonly stepMs: number
}

const WARN_MS = 2000
const FAIL_MS = 30_000

const NAME = 'clock'
const FIX = 'Let this machine set its clock by the network: timedatectl set-ntp true'

/**
 * Compares our clock with those of others. Where they differ among themselves the nearest to ours counts: it
 * is not likely that two clocks are wrong by the same time.
 */
export function clockCheck(readings: readonly ClockReading[]): Check {
  const [nearest] = readings
    .map((reading) => ({ source: reading.source, skew: skewOf(reading) }))
    .toSorted((a, b) => Math.abs(a.skew) - Math.abs(b.skew))
  if (nearest === undefined) return skipped(NAME, 'nobody told the time')
  const { source, skew } = nearest
  const ms = Math.abs(skew)
  if (ms <= WARN_MS) return ok(NAME, `agrees with ${source}`)
  const found = `${seconds(ms)} ${skew > 0 ? 'ahead of' : 'behind'} ${source}`
  return ms > FAIL_MS ? fail(NAME, found, FIX) : warn(NAME, found, FIX)
}

/** How far ours is ahead, in the best case: their clock was read at some moment between `from` and `to`. */
function skewOf({ theirs, from, to, stepMs }: ClockReading): number {
  const latest = theirs + stepMs
  if (from > latest) return from - latest
  if (to < theirs) return to - theirs
  return 0
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`
}

/** The reading in the headers of an answer. */
export function readingOf(
  source: string,
  date: string | null,
  span: { readonly askedAt: number; readonly answeredAt: number },
): ClockReading | undefined {
  const theirs = date === null ? Number.NaN : Date.parse(date)
  if (Number.isNaN(theirs)) return undefined
  return { source, theirs, from: span.askedAt, to: span.answeredAt, stepMs: 1000 }
}
