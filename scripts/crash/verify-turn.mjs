// Checks a stored turn against what was acknowledged and what was planned.
import { digestOf } from './journal.mjs'
import { StreamProcessor } from './library.mjs'

/** @typedef {import('../../packages/turnstream/src/index.ts').StreamOutput} StreamOutput */
/** @typedef {import('./ledger.mjs').Promised} Promised */
/** @typedef {import('./observe.mjs').Observed} Observed */
/** @typedef {import('./observe.mjs').Seen} Seen */
/** @typedef {import('./observe.mjs').SeenRecord} SeenRecord */
/** @typedef {import('./plan.mjs').PlannedTurn} PlannedTurn */

const EVENT_ENDINGS = new Set(['response_done', 'response_error', 'turn_aborted_by_user'])
const ITEM_ENDINGS = new Set(['item_done', 'item_error', 'item_cancelled'])
const LOSSES = new Set(['item_error', 'response_error'])
const OUTPUT_ENDINGS = new Set(['turn_complete', 'turn_error'])
const STATUSES = {
  response_done: 'complete',
  response_error: 'error',
  turn_aborted_by_user: 'aborted',
}

/**
 * The first fault of a turn that must be sealed; undefined if it has none.
 * @param {PlannedTurn} plan
 * @param {Promised} promised
 * @param {Observed} observed
 * @returns {Promise<string | undefined>}
 */
export async function faultOfTurn(plan, promised, observed) {
  const { record } = observed
  if (record === undefined) return 'the turn is gone'
  if (!record.sealed || !observed.snapshot.sealed) return 'the turn is not sealed'
  const fault =
    faultOfEvents(plan, promised, observed.events) ??
    faultOfEnd(observed) ??
    faultOfProcessed(promised, observed) ??
    faultOfResumed(observed)
  return fault ?? (await faultOfState(plan, promised, observed))
}

/**
 * Checks `events` of any turn: every acknowledged record is there, as planned and in order.
 * @param {PlannedTurn} plan @param {Promised} promised @param {readonly Seen[]} events
 */
export function faultOfEvents(plan, promised, events) {
  for (const [index, event] of events.entries()) {
    const fault = faultOfEvent(plan, index, event)
    if (fault !== undefined) return `events, record ${index + 1}: ${fault}`
  }
  const { head } = promised.events
  if (events.length >= head) return undefined
  return `events: ${head} records were acknowledged, ${events.length} are there`
}

/** @param {PlannedTurn} plan @param {number} index @param {Seen} event */
function faultOfEvent(plan, index, event) {
  if ('resync' in event) return `resync: ${event.resync}`
  const { epoch, seq } = placeOf(event)
  if (seq !== index + 1) return `has the offset ${event.offset}`
  if (epoch === 1 && event.data !== plan.events[index]) {
    return `is not what was written: ${event.data}`
  }
  const { event_id, timestamp, type, payload } = JSON.parse(event.data)
  if (event.eventId !== event_id || event.timestamp !== timestamp) return 'has another envelope'
  // The process that claims a turn settles its items and ends it.
  const isLoss = LOSSES.has(type) && payload.error.code === 'PRODUCER_LOST'
  return epoch === 1 || isLoss ? undefined : `is of epoch ${epoch} and a ${type}`
}

/** @param {Observed} observed */
function faultOfEnd({ record, events }) {
  const types = events.map((event) => ('data' in event ? JSON.parse(event.data).type : ''))
  const endings = types.filter((type) => EVENT_ENDINGS.has(type))
  if (endings.length !== 1) return `events has ${endings.length} ends`
  const last = /** @type {keyof typeof STATUSES} */ (types.at(-1))
  if (last !== endings[0]) return `events ends with ${last}`
  const end = events.at(-1)
  const [open] = openItems(events)
  // The plan leaves items open; the claimer settles them.
  if (end !== undefined && 'offset' in end && placeOf(end).epoch > 1 && open !== undefined) {
    return `events: ${open} was not settled`
  }
  if (record?.status !== STATUSES[last]) return `the record says ${record?.status} after ${last}`
  return undefined
}

/** The items that have no end. @param {readonly Seen[]} events */
function openItems(events) {
  /** @type {Set<string>} */
  const open = new Set()
  for (const event of events) {
    if (!('data' in event)) continue
    const { type, payload } = JSON.parse(event.data)
    if (type === 'item_start') open.add(payload.item_id)
    if (ITEM_ENDINGS.has(type)) open.delete(payload.item_id)
  }
  return [...open]
}

/** @param {Promised} promised @param {Observed} observed */
function faultOfProcessed(promised, { processed, snapshot }) {
  const { records, offset } = snapshot
  if (JSON.stringify(processed) !== JSON.stringify(records)) {
    return 'processed: a reader from the start sees something else than the snapshot'
  }
  const keys = new Set(records.map(({ key }) => key))
  const seqs = records.map((record) => placeOf(record).seq)
  if (keys.size !== records.length) return 'processed: a key has two records'
  if (new Set(seqs).size !== seqs.length) return 'processed: an offset has two records'
  const head = Math.max(...seqs)
  if (placeOf({ offset }).seq !== head)
    return `processed: its head is ${offset}, its last record ${head}`
  if (head < promised.processed.head) {
    return `processed: ${promised.processed.head} records were acknowledged, there are ${head}`
  }
  if (promised.processed.sealed && head > promised.processed.head) {
    return 'processed goes on after its end'
  }
  const endings = records.filter(({ key = '' }) => OUTPUT_ENDINGS.has(key))
  if (endings.length !== 1) return `processed has ${endings.length} ends`
  const last = records.at(-1)
  if (last !== endings[0] || seqs.at(-1) !== head) return 'processed does not end with its end'
  return faultOfPromises(promised, records)
}

/** @param {Promised} promised @param {readonly SeenRecord[]} records */
function faultOfPromises({ processed }, records) {
  const byKey = new Map(records.map((record) => [record.key ?? '', record]))
  for (const [key, { seq, digest }] of processed.byKey) {
    const record = byKey.get(key)
    if (record === undefined) return `processed: ${key} was acknowledged and is gone`
    const at = placeOf(record).seq
    if (at < seq) return `processed: ${key} is at ${at}, and ${seq} was acknowledged`
    if (at === seq && digestOf(record.data) !== digest) return `processed: ${key} was changed`
  }
  return undefined
}

/** @param {Observed} observed */
function faultOfResumed({ events, processed, resumed }) {
  for (const { log, after, records } of resumed) {
    const all = log === 'events' ? events : processed
    const { seq } = placeOf({ offset: after })
    const expected = all.filter((record) => 'offset' in record && placeOf(record).seq > seq)
    if (JSON.stringify(records) !== JSON.stringify(expected)) {
      return `${log}: a reader who comes back at ${after} does not get the rest`
    }
  }
  return undefined
}

/**
 * Checks that `processed` follows from `events`. @param {PlannedTurn} plan @param {Promised} promised @param
 * {Observed} observed
 */
async function faultOfState(plan, promised, { events, snapshot }) {
  const expected = await lastOutputs(plan, events)
  const found = new Map(snapshot.records.map(({ key = '', data }) => [key, data]))
  for (const [key, output] of expected) {
    const data = found.get(key)
    found.delete(key)
    if (data === undefined) {
      if (isCancelledText(output) && !promised.processed.byKey.has(key)) continue
      return `processed: ${key} is missing`
    }
    if (settled(JSON.parse(data)) !== settled(output)) {
      return `processed: ${key} is ${data} and should be ${JSON.stringify(output)}`
    }
  }
  const [extra] = found.keys()
  return extra === undefined ? undefined : `processed: ${extra} follows from no event`
}

/** @param {PlannedTurn} plan @param {readonly Seen[]} events */
async function lastOutputs({ turnId, threadId }, events) {
  /** @type {Map<string, StreamOutput>} */
  const last = new Map()
  const processor = new StreamProcessor({
    turnId,
    threadId,
    batchGradient: [],
    batchTimeoutMs: Infinity,
    maxLatencyMs: Infinity,
    onEmit: (_message, output) => {
      last.set('itemId' in output ? output.itemId : output.type, output)
    },
  })
  for (const record of events) {
    if (!('data' in record)) continue
    const event = JSON.parse(record.data)
    // The processor emits nothing for an item that is cancelled before its first snapshot.
    if (event.type === 'item_cancelled' || event.type === 'item_done') await processor.flush()
    await processor.processEvent(event)
  }
  return last
}

/** Timing decides whether such an item was ever emitted. @param {StreamOutput} output */
function isCancelledText(output) {
  const isText = output.type === 'message' || output.type === 'thinking'
  return isText && output.errorCode === 'ITEM_CANCELLED'
}

/** Timing also decides how often a growing text was emitted. @param {StreamOutput} output */
function settled(output) {
  const isGrowing = 'itemId' in output && ['create', 'update'].includes(output.status)
  return JSON.stringify(isGrowing ? { ...output, status: 'update' } : output)
}

/** @param {{ offset: string }} record */
function placeOf({ offset }) {
  const [epoch = Number.NaN, seq = Number.NaN] = offset.split('-').map(Number)
  return { epoch, seq }
}
