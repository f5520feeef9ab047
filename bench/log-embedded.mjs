// Q1: what does a delta cost on the embedded store at a real pace?
// Load: 300 turns at once, 30 deltas a second each, evenly spread, one delta to an append; a turn lasts
//     five seconds, then it is sealed and another takes its place. CPU of the process with all of its
//     threads, the median of nine seconds, for both fsync policies. Floor: the same load on a log that
//     does nothing. The load wakes the process 250 times a second, and on a machine like this one a wake-up
//     costs some 100 us of CPU with nothing to do: the limit holds for what is left without the load, and
//     both are printed.
// Q2: how long does an append take when there is little to do? Load: 10 turns, 30 deltas a second each,
//     on the embedded store and on Redis; time from the call until the record is kept.
import { withFolder, withRedis } from './log-stores.mjs'
import { eventTexts, turnOf } from './log-turns.mjs'
import { expectRatio, median, printTable, processCpu } from './measure.mjs'
import { noLog, PacedTurns } from './paced-turns.mjs'
import { openEmbeddedLog, openRedisLog } from './turnstream-server.mjs'

/** @typedef {import('./log-stores.mjs').TurnLog} TurnLog */
/** @typedef {import('./paced-turns.mjs').Appendable} Appendable */

const DELTAS_PER_SECOND = 30
const TURN_SECONDS = 5
const BUSY = { turns: 300, warmup: 8, seconds: 9 }
const LIGHT = { turns: 10, warmup: 1, seconds: 4 }
const LIMIT_US = 20
/** @type {{ sync: 'system' }} */
const SYSTEM = { sync: 'system' }

/** @param {Appendable} log @param {typeof BUSY} load @param {number[]} [latencies] */
async function pace(log, { turns, warmup, seconds }, latencies) {
  const tokens = DELTAS_PER_SECOND * TURN_SECONDS
  const texts = Array.from({ length: turns }, (_, index) => eventTexts(turnOf(index, tokens)))
  const paced = new PacedTurns(log, texts, latencies)
  await paced.run(warmup, turns * DELTAS_PER_SECOND)
  latencies?.splice(0)
  const perSecond = []
  for (let second = 0; second < seconds; second++) {
    const first = paced.appended
    const start = processCpu()
    await paced.run(1, turns * DELTAS_PER_SECOND)
    perSecond.push((processCpu() - start) / (paced.appended - first))
  }
  await paced.settle()
  return median(perSecond)
}

/** @param {Appendable} log */
async function latency(log) {
  /** @type {number[]} */
  const latencies = []
  await pace(log, LIGHT, latencies)
  const sorted = latencies.toSorted((a, b) => a - b)
  /** @param {number} share */
  const quantile = (share) => sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN
  return { 'p50 ms': quantile(0.5), 'p99 ms': quantile(0.99) }
}

/**
 * @template T
 * @param {{ sync?: 'commit' | 'system' }} options @param {(log: TurnLog) => Promise<T>} use
 */
function withEmbedded(options, use) {
  return withFolder(async (directory) => {
    const log = await openEmbeddedLog({ ...options, directory })
    const result = await use(log)
    await log.close()
    return result
  })
}

/** @template T @param {(log: TurnLog) => Promise<T>} use */
function withRedisLog(use) {
  return withRedis(async ({ url }) => {
    const log = await openRedisLog({ url })
    const result = await use(log)
    await log.close()
    return result
  })
}

export async function benchLogEmbedded() {
  /** @param {Appendable} log */
  const busy = (log) => pace(log, BUSY)
  const floor = await busy(noLog)
  const byDefault = await withEmbedded({}, busy)
  const bySystem = await withEmbedded(SYSTEM, busy)
  const rows = [
    { log: 'none', us: floor, 'without the load': 0 },
    {
      log: 'embedded, sync commit (default)',
      us: byDefault,
      'without the load': byDefault - floor,
    },
    { log: 'embedded, sync system', us: bySystem, 'without the load': bySystem - floor },
  ]
  printTable(`embedded log: CPU per delta, ${BUSY.turns} turns, ${DELTAS_PER_SECOND}/s each`, rows)
  expectRatio('embedded: CPU us per delta, without the load', byDefault - floor, LIMIT_US)

  printTable(`log: time of an append, ${LIGHT.turns} turns, ${DELTAS_PER_SECOND} deltas/s each`, [
    { log: 'embedded, sync commit (default)', ...(await withEmbedded({}, latency)) },
    { log: 'embedded, sync system', ...(await withEmbedded(SYSTEM, latency)) },
    { log: 'redis', ...(await withRedisLog(latency)) },
  ])
}
