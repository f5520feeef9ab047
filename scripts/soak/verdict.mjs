// Whether a gateway that lived through a soak stayed as it was.

/** @typedef {import('./gateway.mjs').Sample} Sample */

/** Loading, compiling and filling caches are no leak. */
const WARM_UP = 0.3

/**
 * Compares the last third of what is left after the warm-up with the first. The floors are what caches may still
 * take in a short run, and what a busy machine does to the event loop.
 */
const MEASURES = /** @type {const} */ ([
  { name: 'heap', limit: 1.25, floor: 40 * 1024 * 1024 },
  { name: 'rss', limit: 1.35, floor: 64 * 1024 * 1024 },
  { name: 'handles', limit: 1.25, floor: 10 },
  { name: 'delay', limit: 3, floor: 50 },
])

/** @param {readonly Sample[]} samples */
export function growth(samples) {
  const steady = samples.slice(Math.ceil(samples.length * WARM_UP))
  const third = Math.floor(steady.length / 3)
  if (third < 5) throw new Error(`${samples.length} samples are too few to judge`)
  return MEASURES.map(({ name, limit, floor }) => {
    const first = median(steady.slice(0, third).map((sample) => sample[name]))
    const last = median(steady.slice(-third).map((sample) => sample[name]))
    const isFlat = last <= Math.max(first * limit, first + floor)
    return { name, first, last, limit, isFlat }
  })
}

/** @param {readonly number[]} values */
function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}
