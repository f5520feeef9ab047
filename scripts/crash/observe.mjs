// What readers see of a turn, through nothing but the interface of the log.

/** @typedef {import('../../src/log/turn-log.ts').LogName} LogName */
/** @typedef {import('../../src/log/turn-log.ts').Tailed} Tailed */
/** @typedef {import('../../src/log/turn-log.ts').TurnLog} TurnLog */
/** @typedef {import('../../src/log/turn-log.ts').TurnRecord} TurnRecord */
/** @typedef {import('../../src/log/turn-log.ts').TurnSnapshot} TurnSnapshot */
/** @typedef {import('./random.mjs').Random} Random */

/**
 * @typedef {object} Observed
 * @property {TurnRecord | undefined} record
 * @property {Tailed[]} events
 * @property {Tailed[]} processed
 * @property {TurnSnapshot} snapshot
 * @property {{ log: LogName, after: string, records: Tailed[] }[]} resumed
 */

const START = '0-0'

// A reader of a sealed log comes to its end; one that does not is told so after this time.
const READ_LIMIT_MS = 20_000

/** A sealed turn, read whole and from a few places in the middle. @param {TurnLog} log @param {string} turnId @param {Random} random @returns {Promise<Observed>} */
export async function observeTurn(log, turnId, random) {
  const record = await log.getTurn(turnId)
  const events = await readToEnd(log, turnId, 'events', START)
  const processed = await readToEnd(log, turnId, 'processed', START)
  const snapshot = await log.snapshot(turnId)
  const resumed = []
  for (const [name, records] of /** @type {const} */ ([
    ['events', events],
    ['processed', processed],
  ])) {
    const place = records[random.between(0, records.length - 1)]
    if (place === undefined || 'resync' in place) continue
    const after = place.offset
    resumed.push({ log: name, after, records: await readToEnd(log, turnId, name, after) })
  }
  return { record, events, processed, snapshot, resumed }
}

/** @param {TurnLog} log @param {string} turnId @param {LogName} name @param {string} after */
async function readToEnd(log, turnId, name, after) {
  /** @type {Tailed[]} */
  const records = []
  const signal = AbortSignal.timeout(READ_LIMIT_MS)
  for await (const record of log.tail(turnId, name, after, signal)) records.push(record)
  if (signal.aborted)
    throw new Error(`the reader of ${name} of ${turnId} after ${after} never ends`)
  return records
}

/** The first `count` events of a turn that may still grow. @param {TurnLog} log @param {string} turnId @param {number} count */
export async function readEvents(log, turnId, count) {
  /** @type {Tailed[]} */
  const records = []
  if (count === 0) return records
  const signal = AbortSignal.timeout(READ_LIMIT_MS)
  for await (const record of log.tail(turnId, 'events', START, signal)) {
    records.push(record)
    if (records.length === count) break
  }
  return records
}
