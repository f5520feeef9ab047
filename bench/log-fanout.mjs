// Q: what do readers cost the writer?
// Load: complete turns of 10k tokens, from StreamEvents through the processor to `processed`, with one
//     local reader and with 100. As at a real pace, where snapshots are half a second apart, each
//     snapshot reaches every reader before the next is made: none is skipped, which would be cheaper.
// Compared with: the same turn with one reader. On Redis the server's CPU is counted too.
import { cpuWithRedis, createTurn, processedSink, withFolder, withRedis } from './log-stores.mjs'
import { processTurn, turnOf } from './log-turns.mjs'
import { expectRatio, measure, nsOf, printTable, processCpu } from './measure.mjs'
import { MemoryLog, openEmbeddedLog, openRedisLog } from './turnstream-server.mjs'

/** @typedef {import('./log-stores.mjs').TurnLog} TurnLog */
/** @typedef {import('./log-turns.mjs').StreamMessage} StreamMessage */
/** @typedef {import('./log-turns.mjs').Turn} Turn */

const TOKENS = 10_000
const TURNS_PER_SAMPLE = 4
const MANY = 100

/** Counts deliveries, and lets the writer wait until all readers have a record. */
class Deliveries {
  #readers
  #wanted = 0
  #got = 0
  /** @type {(() => void) | undefined} */
  #wake

  /** @param {number} readers */
  constructor(readers) {
    this.#readers = readers
  }

  get got() {
    return this.#got
  }

  add() {
    this.#got += 1
    if (this.#got === this.#wanted) this.#wake?.()
  }

  async next() {
    this.#wanted += this.#readers
    if (this.#got < this.#wanted) {
      await new Promise((resolve) => {
        this.#wake = () => resolve(undefined)
      })
    }
  }
}

/** @param {TurnLog} log @param {string} turnId @param {Deliveries} deliveries */
async function read(log, turnId, deliveries) {
  let bytes = 0
  for await (const record of log.tail(turnId, 'processed', '0-0', new AbortController().signal)) {
    if ('data' in record) bytes += record.data.length
    deliveries.add()
  }
  return bytes
}

/** @param {TurnLog} log @param {Turn} turn @param {number} count */
async function turnWithReaders(log, turn, count) {
  const deliveries = new Deliveries(count)
  const append = processedSink(log, await createTurn(log, turn))
  const readers = Array.from({ length: count }, () => read(log, turn.turnId, deliveries))
  /** @param {StreamMessage} message */
  const write = async (message) => {
    await append(message)
    await deliveries.next()
  }
  await Promise.race([processTurn(turn, write), failureOf(readers)])
  const bytes = await Promise.all(readers)
  if (bytes.some((size) => size !== bytes[0])) throw new Error('a reader missed something')
  return deliveries.got
}

/** The writer would wait for a failed reader forever. @param {Promise<unknown>[]} readers */
function failureOf(readers) {
  return new Promise((_, reject) => {
    for (const reader of readers) reader.catch(reject)
  })
}

/** @param {TurnLog} log @param {number} readers */
function subjectOf(log, readers) {
  const turns = Array.from({ length: TURNS_PER_SAMPLE }, (_, index) => {
    const turn = turnOf(index, TOKENS)
    const events = [...turn.events()]
    // Creating the events is not measured.
    return { ...turn, events: () => events }
  })
  const subject = {
    name: `${readers}`,
    delivered: 0,
    async run() {
      subject.delivered = 0
      for (const turn of turns) subject.delivered += await turnWithReaders(log, turn, readers)
      return turns.length
    },
    async after() {
      for (const { turnId } of turns) await log.deleteTurn(turnId)
    },
  }
  return subject
}

/** @param {string} store @param {TurnLog} log @param {() => number | Promise<number>} spent */
async function benchStore(store, log, spent) {
  const subjects = [subjectOf(log, 1), subjectOf(log, MANY)]
  const figures = await measure(subjects, { rounds: 11, warmup: 2, spent })
  const one = nsOf(figures, '1')
  const rows = subjects.map(({ name, delivered }) => ({
    store,
    readers: name,
    'ms per turn': nsOf(figures, name) / 1e6,
    'x one reader': nsOf(figures, name) / one,
    deliveries: delivered / TURNS_PER_SAMPLE,
  }))
  return rows
}

export async function benchLogFanout() {
  const memory = new MemoryLog()
  const rows = await benchStore('memory', memory, processCpu)
  await memory.close()
  await withFolder(async (directory) => {
    const log = await openEmbeddedLog({ directory })
    rows.push(...(await benchStore('embedded', log, processCpu)))
    await log.close()
  })
  await withRedis(async (server) => {
    const log = await openRedisLog({ url: server.url })
    rows.push(...(await benchStore('redis', log, () => cpuWithRedis(server))))
    await log.close()
  })
  printTable(`log: CPU of a turn of ${TOKENS / 1000}k tokens on processed, by readers`, rows)
  for (const { store, readers, 'x one reader': ratio } of rows) {
    if (readers === String(MANY) && store !== 'memory') {
      expectRatio(`fan-out: ${store}, ${MANY} readers / one`, ratio, 3)
    }
  }
}
