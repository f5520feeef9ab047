// How every bench measures. Subjects run interleaved, in an order that rotates each round, so that noise affects all
// equally. A figure is the median of the rounds. By default it is CPU time of the process, including other threads
// (GC). --quick runs few rounds: enough to see the effect of a change, too few to quote.

/**
 * @typedef {object} Subject
 * @property {string} name
 * @property {() => number | Promise<number>} run Runs one sample and returns its number of operations.
 * @property {number} [every] Runs only in every n-th round: for slow rivals, where a few samples are enough.
 * @property {() => Promise<void>} [before] Prepares the sample; this and `after` are not measured.
 * @property {() => Promise<void>} [after]
 *
 * @typedef {object} Figure
 * @property {string} name
 * @property {number} ns Median time of one operation once warm.
 * @property {number} first The same for the first sample, before the code was optimised.
 */

/** @type {{ name: string, actual: number, limit: number, aim: number | string }[]} */
const ratios = []

export const isQuick = process.argv.includes('--quick')
export const isProfiled = process.argv.includes('--profile')

/** CPU time of this process so far, in µs, for all threads. */
export function processCpu() {
  const { user, system } = process.cpuUsage()
  return user + system
}

/** Wall-clock time in µs. */
export function wallTime() {
  return performance.now() * 1000
}

/** @param {number} ms @returns {Promise<void>} */
export function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/**
 * Runs each subject once per round, in an order that rotates each round.
 * @param {number} rounds @param {number} subjects
 * @param {(subject: number, round: number) => Promise<void>} run
 */
export async function interleave(rounds, subjects, run) {
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < subjects; turn++) await run((round + turn) % subjects, round)
  }
}

/**
 * `spent` returns what is measured: the µs used so far.
 * @param {Subject[]} subjects
 * @param {{ rounds?: number, warmup?: number, spent?: () => number | Promise<number> }} [options]
 * @returns {Promise<Figure[]>}
 */
export async function measure(subjects, { rounds = 11, warmup = 3, spent = processCpu } = {}) {
  if (rounds < 9) throw new RangeError(`${rounds} rounds say nothing on a noisy machine: take 9`)
  const discarded = 1 + (isQuick ? 1 : warmup)
  /** @type {number[][]} */
  const samples = subjects.map(() => [])
  await interleave(discarded + (isQuick ? 3 : rounds), subjects.length, async (index, round) => {
    const subject = subjects[index]
    if (subject && round % (subject.every ?? 1) === 0) {
      samples[index]?.push(await sample(subject, spent))
    }
  })
  return subjects.map(({ name, every = 1 }, index) => {
    const all = samples[index] ?? []
    const warm = all.slice(Math.ceil(discarded / every))
    return { name, ns: median(warm), first: all[0] ?? Number.NaN }
  })
}

/**
 * @param {Subject} subject @param {() => number | Promise<number>} spent
 * @returns {Promise<number>} ns per operation
 */
async function sample({ name, run, before, after }, spent) {
  await before?.()
  // No gc() here: when the last object of a kind dies in a full collection, V8 discards the code optimised for it
  // (--trace-deopt: "weak objects"), and a short sample measures the compiler. ResponseStream: 1,210 ns per event
  // with it, 91 without.
  const start = await spent()
  const operations = await run()
  const end = await spent()
  await after?.()
  if (!(operations > 0)) throw new Error(`${name} did nothing`)
  return ((end - start) * 1000) / operations
}

/** @param {number[]} values @returns {number} */
export function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2
}

/** @param {readonly number[]} values @param {number} share */
export function quantile(values, share) {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN
}

/** @param {Figure[]} figures @param {string} name @returns {number} the warm figure of one subject */
export function nsOf(figures, name) {
  const figure = figures.find((candidate) => candidate.name === name)
  if (!figure) throw new Error(`nothing was measured under the name ${name}`)
  return figure.ns
}

/** Bytes in use once nothing is left to collect. Needs `node --expose-gc`. */
export function heapAfterGc() {
  if (!globalThis.gc) throw new Error('heapAfterGc needs node --expose-gc')
  // The second run frees what the finalizers of the first let go of.
  globalThis.gc()
  globalThis.gc()
  return process.memoryUsage().heapUsed
}

/**
 * Columns are the keys of the first row; numbers stand to the right.
 * @param {string} title
 * @param {object[]} rows
 */
export function printTable(title, rows) {
  const keys = Object.keys(rows[0] ?? {})
  const lines = [keys, ...rows.map((row) => Object.values(row).map(cell))]
  const widths = keys.map((_, column) =>
    Math.max(...lines.map((line) => (line[column] ?? '').length)),
  )
  const isNumber = Object.values(rows[0] ?? {}).map((value) => typeof value === 'number')
  console.log(`\n${title}`)
  for (const line of lines) {
    const cells = line.map((text, column) => {
      const width = widths[column] ?? 0
      return isNumber[column] ? text.padStart(width) : text.padEnd(width)
    })
    console.log(`  ${cells.join('   ')}`.trimEnd())
  }
}

/** @param {unknown} value @returns {string} */
function cell(value) {
  if (typeof value !== 'number') return String(value)
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2)
}

/**
 * A goal: it is missed above the limit. The aim is printed only.
 * @param {string} name @param {number} actual @param {number} limit @param {number} [aim]
 */
export function expectRatio(name, actual, limit, aim) {
  ratios.push({ name, actual, limit, aim: aim ?? '-' })
}

/** Prints which goals are met; the process fails when one is missed. */
export function finish() {
  // Written so that NaN is a miss.
  const rows = ratios.map((ratio) => ({
    ...ratio,
    goal: ratio.actual <= ratio.limit ? 'met' : 'MISSED',
  }))
  if (rows.length > 0) printTable('goals', rows)
  if (rows.some(({ goal }) => goal !== 'met')) process.exitCode = 1
}
