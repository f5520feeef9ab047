// Q: how much longer does opening a store take when it has many ended turns? Their index pages are verified.
// Load: the embedded store with 10,000 finished turns: time until it is open and one turn was read.
// Compared with: the same with 100 turns.
import { append, createTurn, processedRecord, withFolder } from './log-stores.mjs'
import { eventTexts, snapshotsOf, turnOf } from './log-turns.mjs'
import { expectRatio, measure, nsOf, printTable, wallTime } from './measure.mjs'
import { openEmbeddedLog } from './turnstream-server.mjs'

/** @typedef {import('./log-stores.mjs').TurnLog} TurnLog */

const FEW = 100
const MANY = 10_000
const TOKENS = 20
const AT_ONCE = 500

/** @param {TurnLog} log @param {number} number */
async function writeFinished(log, number) {
  const turn = turnOf(number, TOKENS)
  const lease = await createTurn(log, turn)
  const events = eventTexts(turn).map((data, index) => ({ seq: index + 1, data }))
  const outputs = (await snapshotsOf(turn)).map((message, index) =>
    processedRecord(message, index + 1),
  )
  await append(log, lease, 'events', events, true)
  await append(log, lease, 'processed', outputs, true)
}

/** @param {string} directory @param {number} count */
async function fill(directory, count) {
  const log = await openEmbeddedLog({ directory })
  for (let from = 0; from < count; from += AT_ONCE) {
    const numbers = Array.from(
      { length: Math.min(AT_ONCE, count - from) },
      (_, index) => from + index,
    )
    await Promise.all(numbers.map((number) => writeFinished(log, number)))
  }
  await log.close()
}

/** @param {string} directory @param {number} count */
function reopen(directory, count) {
  /** @type {TurnLog | undefined} */
  let opened
  const { turnId } = turnOf(count - 1, 1)
  return {
    name: String(count),
    async run() {
      const log = await openEmbeddedLog({ directory })
      opened = log
      const turn = await log.getTurn(turnId)
      return turn?.sealed ? 1 : 0
    },
    async after() {
      await opened?.close()
    },
  }
}

export async function benchLogReopen() {
  const figures = await withFolder((few) =>
    withFolder(async (many) => {
      await fill(few, FEW)
      await fill(many, MANY)
      return measure([reopen(few, FEW), reopen(many, MANY)], { rounds: 21, spent: wallTime })
    }),
  )
  printTable(
    'embedded log: time to reopen',
    figures.map(({ name, ns, first }) => ({
      'finished turns': name,
      ms: ns / 1e6,
      'first ms': first / 1e6,
    })),
  )
  const ratio = nsOf(figures, String(MANY)) / nsOf(figures, String(FEW))
  expectRatio(`reopen: ${MANY} finished turns / ${FEW}`, ratio, 12)
}
