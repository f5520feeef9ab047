// Q: what does it cost to join a turn late?
// Load: one turn of 100k tokens (400 kB of text), still open and finished; each join is the first one
//     in a store that was just opened. `processed` is read from the beginning to the end.
// Rivals: replaying every event from the same store; `resumable-stream` on Redis, which holds the chunks
//     of an AI SDK text stream for the same deltas. They have a sixth of our events' bytes, and a finished stream can
//     no longer be read.
import { append, createTurn, processedRecord, withFolder, withRedis } from './log-stores.mjs'
import { eventTexts, snapshotsOf, turnOf } from './log-turns.mjs'
import { expectRatio, measure, nsOf, printTable, wallTime } from './measure.mjs'
import { startResumableStream } from './resumable-stream.mjs'
import { openEmbeddedLog, openRedisLog } from './turnstream-server.mjs'

/** @typedef {import('./log-stores.mjs').LogName} LogName */
/** @typedef {import('./log-stores.mjs').NewRecord} NewRecord */
/** @typedef {import('./log-stores.mjs').TurnLog} TurnLog */
/** @typedef {import('./log-turns.mjs').Turn} Turn */
/** @typedef {import('./measure.mjs').Subject & { bytes: number }} JoinSubject */
/** @typedef {{ store: string, state: string, join: JoinSubject, replay: JoinSubject, snapshot: JoinSubject }} Joins */

const TOKENS = 100_000
const APPEND = 256

/** @typedef {{ turnId: string, heads: Record<LogName, string> }} Written */

/**
 * @param {TurnLog} log @param {Turn} turn @param {boolean} isFinished
 * @returns {Promise<Written>}
 */
async function writeTurn(log, turn, isFinished) {
  const lease = await createTurn(log, turn)
  const last = isFinished ? undefined : -1
  const events = eventTexts(turn).map((data, index) => ({ seq: index + 1, data }))
  const outputs = (await snapshotsOf(turn)).map((message, index) =>
    processedRecord(message, index + 1),
  )
  /** @param {LogName} name @param {NewRecord[]} records */
  const write = async (name, records) => {
    let head = ''
    for (let from = 0; from < records.length; from += APPEND) {
      const some = records.slice(from, from + APPEND)
      const seal = isFinished && from + APPEND >= records.length
      await append(log, lease, name, some, seal)
      head = `${lease.epoch}-${some.at(-1)?.seq}`
    }
    return head
  }
  const heads = {
    events: await write('events', events.slice(0, last)),
    processed: await write('processed', outputs.slice(0, last)),
  }
  return { turnId: turn.turnId, heads }
}

/** Reads to the current end. @param {TurnLog} log @param {Written} written @param {LogName} name */
async function readAll(log, { turnId, heads }, name) {
  const tail = log.tail(turnId, name, '0-0', new AbortController().signal)
  let bytes = 0
  for await (const record of tail) {
    if ('resync' in record) throw new Error(`the start of ${name} is ${record.resync}`)
    bytes += record.data.length
    if (tail.cursor === heads[name]) break
  }
  return bytes
}

/**
 * @param {string} name @param {() => Promise<TurnLog>} open @param {(log: TurnLog) => Promise<number>} read
 * @returns {JoinSubject}
 */
function joinSubject(name, open, read) {
  /** @type {TurnLog | undefined} */
  let log
  /** @type {JoinSubject} */
  const subject = {
    name,
    bytes: 0,
    async before() {
      log = await open()
    },
    async run() {
      if (!log) throw new Error('the store is not open')
      subject.bytes = await read(log)
      return 1
    },
    async after() {
      await log?.close()
    },
  }
  return subject
}

/** @param {string} store @param {() => Promise<TurnLog>} open @returns {Promise<Joins[]>} */
async function joinsOf(store, open) {
  const joins = []
  for (const [number, state] of ['open', 'finished'].entries()) {
    const log = await open()
    const written = await writeTurn(log, turnOf(number, TOKENS), state === 'finished')
    await log.close()
    const name = `${store}, ${state}`
    joins.push({
      store,
      state,
      join: joinSubject(`${name}, join`, open, (log) => readAll(log, written, 'processed')),
      replay: joinSubject(`${name}, replay`, open, (log) => readAll(log, written, 'events')),
      snapshot: joinSubject(`${name}, snapshot`, open, (log) => stateOf(log, written)),
    })
  }
  return joins
}

/** @param {TurnLog} log @param {Written} written */
async function stateOf(log, { turnId }) {
  const { records } = await log.snapshot(turnId)
  return records.reduce((sum, { data }) => sum + data.length, 0)
}

/** @param {Joins} joins */
const subjectsOf = ({ join, replay, snapshot }) => [join, snapshot, replay]

/** @param {import('./measure.mjs').Figure[]} figures @param {JoinSubject[]} subjects */
function print(figures, subjects) {
  const rows = subjects.map(({ name, bytes }) => {
    const { ns, first } = figures.find((figure) => figure.name === name) ?? { ns: NaN, first: NaN }
    return { join: name, kB: bytes / 1000, ms: ns / 1e6, 'first ms': first / 1e6 }
  })
  printTable(`log: joining a turn of ${TOKENS / 1000}k tokens (time until all was read)`, rows)
}

/** @param {import('./measure.mjs').Figure[]} figures @param {Joins} joins */
function expectCheap(figures, { store, state, join, replay }) {
  const name = `${store}, ${state}`
  const time = nsOf(figures, join.name) / nsOf(figures, replay.name)
  expectRatio(`join: ${name}, 20 x bytes / those of a replay`, (20 * join.bytes) / replay.bytes, 1)
  expectRatio(`join: ${name}, 10 x time / that of a replay`, 10 * time, 1)
}

async function benchEmbedded() {
  await withFolder(async (directory) => {
    const joins = await joinsOf('embedded', () => openEmbeddedLog({ directory }))
    const subjects = joins.flatMap(subjectsOf)
    const figures = await measure(subjects, { rounds: 9, warmup: 1, spent: wallTime })
    print(figures, subjects)
    for (const one of joins) expectCheap(figures, one)
  })
}

async function benchRedis() {
  await withRedis(async ({ url }) => {
    const joins = await joinsOf('redis', () => openRedisLog({ url }))
    const rival = await startResumableStream(url, turnOf(0, TOKENS))
    const subjects = [...joins.flatMap(subjectsOf), rival]
    const figures = await measure(subjects, { rounds: 9, warmup: 1, spent: wallTime })
    rival.stop()
    print(figures, subjects)
    for (const one of joins) {
      const name = `redis, ${one.state}`
      const time = nsOf(figures, one.join.name) / nsOf(figures, rival.name)
      expectCheap(figures, one)
      expectRatio(`join: ${name}, bytes / resumable-stream`, one.join.bytes / rival.bytes, 1)
      expectRatio(`join: ${name}, time / resumable-stream`, time, 1)
    }
  })
}

export async function benchLogJoin() {
  await benchEmbedded()
  await benchRedis()
}
