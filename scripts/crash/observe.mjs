// What readers see of a turn, through the interface of the log.

/** @typedef {import('../../packages/core/src/log/turn-log.ts').LogName} LogName */
/** @typedef {import('../../packages/core/src/log/turn-log.ts').LogRecord} LogRecord */
/** @typedef {import('../../packages/core/src/log/turn-log.ts').Resync} Resync */
/** @typedef {import('../../packages/core/src/log/turn-log.ts').TurnLog} TurnLog */
/** @typedef {import('../../packages/core/src/log/turn-log.ts').TurnRecord} TurnRecord */
/** @typedef {import('./random.mjs').Random} Random */

/**
 * A record without fields that are computed on read. `key` is set for records of `processed`.
 * @typedef {{ offset: string, data: string, eventId: string, timestamp: number, key?: string }} SeenRecord
 */
/** @typedef {SeenRecord | Resync} Seen */

/**
 * @typedef {object} Observed
 * @property {TurnRecord | undefined} record
 * @property {Seen[]} events
 * @property {Seen[]} processed
 * @property {{ records: SeenRecord[], offset: string, sealed: boolean }} snapshot
 * @property {{ log: LogName, after: string, records: Seen[] }[]} resumed
 */

const START = '0-0'

// A reader of a sealed log reaches its end; otherwise it fails after this time.
const READ_LIMIT_MS = 20_000

/**
 * Reads a sealed turn from the beginning and from a few positions in the middle. @param {TurnLog} log @param {string}
 * turnId @param {Random} random @returns {Promise<Observed>}
 */
export async function observeTurn(log, turnId, random) {
  const record = await log.getTurn(turnId)
  const events = await readToEnd(log, turnId, 'events', START)
  const processed = await readToEnd(log, turnId, 'processed', START)
  const { records, offset, sealed } = await log.snapshot(turnId)
  const snapshot = { records: records.map(seenRecord), offset, sealed }
  const resumed = []
  for (const [name, all] of /** @type {const} */ ([
    ['events', events],
    ['processed', processed],
  ])) {
    const place = all[random.between(0, all.length - 1)]
    if (place === undefined || 'resync' in place) continue
    const after = place.offset
    resumed.push({ log: name, after, records: await readToEnd(log, turnId, name, after) })
  }
  return { record, events, processed, snapshot, resumed }
}

/** @param {LogRecord} record @returns {SeenRecord} */
function seenRecord(record) {
  const { offset, data, eventId, timestamp } = record
  const held = 'event' in record ? record.event : record.output
  if (JSON.stringify(held) !== data) throw new Error(`${offset} holds something else than ${data}`)
  const seen = { offset, data, eventId, timestamp }
  return 'key' in record ? { ...seen, key: record.key } : seen
}

/** @param {TurnLog} log @param {string} turnId @param {LogName} name @param {string} after */
async function readToEnd(log, turnId, name, after) {
  /** @type {Seen[]} */
  const records = []
  const signal = AbortSignal.timeout(READ_LIMIT_MS)
  for await (const record of log.tail(turnId, name, after, signal)) {
    records.push('resync' in record ? record : seenRecord(record))
  }
  if (signal.aborted)
    throw new Error(`the reader of ${name} of ${turnId} after ${after} never ends`)
  return records
}

/** The first `count` events of a turn that may still grow. @param {TurnLog} log @param {string} turnId @param {number} count */
export async function readEvents(log, turnId, count) {
  /** @type {Seen[]} */
  const records = []
  if (count === 0) return records
  const signal = AbortSignal.timeout(READ_LIMIT_MS)
  for await (const record of log.tail(turnId, 'events', START, signal)) {
    records.push('resync' in record ? record : seenRecord(record))
    if (records.length === count) break
  }
  return records
}
