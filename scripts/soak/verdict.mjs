// Checks whether a gateway stayed flat during a soak.

/** @typedef {import('./gateway.mjs').Sample} Sample */

/** Loading, compiling and filling caches are no leak. */
const WARM_UP = 0.3

/** If a gateway waited this long for a CPU in a second, its event loop delay is not meaningful. */
const STARVED_MS = 250

const MIN_SAMPLES = 5

/**
 * Compares the last third of what is left after the warm-up with the first. The floors allow for caches that still
 * fill in a short run.
 */
const MEASURES = /** @type {const} */ ([
  { name: 'heap', limit: 1.25, floor: 40 * 1024 * 1024 },
  { name: 'rss', limit: 1.35, floor: 64 * 1024 * 1024 },
  { name: 'handles', limit: 1.25, floor: 10 },
  { name: 'delay', limit: 3, floor: 50 },
])

/**
 * `isFlat` is undefined when the machine was too busy to tell.
 * @param {readonly Sample[]} samples
 */
export function growth(samples) {
  const steady = samples.slice(Math.ceil(samples.length * WARM_UP))
  const third = Math.floor(steady.length / 3)
  if (third < MIN_SAMPLES) throw new Error(`${samples.length} samples are too few to judge`)
  return MEASURES.map(({ name, limit, floor }) => {
    const values = (/** @type {readonly Sample[]} */ part) =>
      part
        .filter(({ starved }) => name !== 'delay' || starved < STARVED_MS)
        .map((sample) => sample[name])
    const before = values(steady.slice(0, third))
    const after = values(steady.slice(-third))
    const [first, last] = [median(before), median(after)]
    const isJudged = Math.min(before.length, after.length) >= MIN_SAMPLES
    const isFlat = isJudged ? last <= Math.max(first * limit, first + floor) : undefined
    return { name, first, last, limit, isFlat }
  })
}

/** @param {readonly number[]} values */
function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}
