// Q: how long does an append to the embedded store take?
// Load: 10 turns, 30 deltas a second each, one delta to an append; time from the call until the record is
//     stored. Floor: the same records at the same rate, appended to a file on the same disk; the time of each
//     fdatasync, one after the other with all records that came in between. The two alternate every few seconds; the
//     figures are medians over the rounds, without the first one, which is printed separately. The goal applies to
//     the fdatasync. The time until a record of the floor is stored is also printed: when the disk stalls, many
//     records wait for one fdatasync.
import { open } from 'node:fs/promises'
import { append, createTurn, withFolder } from './log-stores.mjs'
import { eventTexts, turnOf } from './log-turns.mjs'
import {
  expectRatio,
  interleave,
  isQuick,
  median,
  pause,
  printTable,
  quantile,
} from './measure.mjs'
import { openEmbeddedLog } from './turnstream-server.mjs'

/** @typedef {import('./log-stores.mjs').TurnLog} TurnLog */

const TURNS = 10
const PER_SECOND = 30
const SECONDS = isQuick ? 4 : 8
const ROUNDS = isQuick ? 2 : 7
/** A turn lasts five seconds, then it is sealed and replaced by another. */
const TOKENS = 150
const ENDING = {
  seq: 1,
  data: JSON.stringify({
    type: 'turn_complete',
    turnId: 'paced',
    threadId: 'paced',
    status: 'complete',
  }),
  eventId: 'paced',
  timestamp: 0,
}

/** Calls `write` at the rate of all turns, and waits for all of it. @param {(index: number) => Promise<void>} write */
async function atPace(write) {
  const start = performance.now()
  const writes = []
  for (let index = 0; index < TURNS * PER_SECOND * SECONDS; index++) {
    const due = start + (index * 1000) / (TURNS * PER_SECOND) - performance.now()
    if (due > 0) await pause(due)
    writes.push(write(index))
  }
  await Promise.all(writes)
}

/** @param {TurnLog} log @param {number} number @param {number} tokens */
function startTurn(log, number, tokens) {
  const turn = turnOf(number, tokens)
  return { lease: createTurn(log, turn), texts: eventTexts(turn), appended: 0 }
}

/** @typedef {{ append: number[], sync?: number[] }} Times */

/** @param {string} folder @returns {Promise<Times>} ms of each append */
async function appendTimes(folder) {
  const log = await openEmbeddedLog({ directory: `${folder}/store` })
  let started = TURNS
  // The first ones are shorter, so that turns do not end together.
  const turns = Array.from({ length: TURNS }, (_, index) =>
    startTurn(log, index, Math.ceil((TOKENS * (index + 1)) / TURNS)),
  )
  /** @type {number[]} */
  const times = []
  await atPace(async (index) => {
    const place = index % TURNS
    let turn = turns[place]
    if (!turn || turn.appended === turn.texts.length) {
      turn = startTurn(log, started++, TOKENS)
      turns[place] = turn
    }
    const data = turn.texts[turn.appended++] ?? ''
    const record = { seq: turn.appended, data }
    const isLast = turn.appended === turn.texts.length
    const lease = await turn.lease
    const start = performance.now()
    await append(log, lease, 'events', [record], isLast)
    times.push(performance.now() - start)
    if (isLast) await append(log, lease, 'processed', [ENDING], true)
  })
  await log.close()
  return { append: times }
}

/** @param {string} folder @returns {Promise<Times>} ms of each record and of each fdatasync */
async function fileTimes(folder) {
  const file = await open(`${folder}/file`, 'a')
  const texts = eventTexts(turnOf(0, PER_SECOND * SECONDS))
  /** @type {number[]} */
  const sync = []
  /** @type {number[]} */
  const append = []
  /** When each record of `queued` arrived. @type {number[]} */
  let arrivals = []
  let queued = ''
  /** @type {Promise<void> | undefined} */
  let busy
  const commit = async () => {
    while (queued !== '') {
      const text = queued
      const arrived = arrivals
      queued = ''
      arrivals = []
      await file.write(text)
      const start = performance.now()
      await file.datasync()
      const end = performance.now()
      sync.push(end - start)
      append.push(...arrived.map((arrival) => end - arrival))
    }
    busy = undefined
  }
  await atPace(async (index) => {
    queued += `${texts[Math.floor(index / TURNS)]}\n`
    arrivals.push(performance.now())
    busy ??= commit()
    await busy
  })
  await file.close()
  return { append, sync }
}

const SUBJECTS = [appendTimes, fileTimes]

export async function benchLogEmbedded() {
  /** @type {Times[][]} */
  const times = SUBJECTS.map(() => [])
  await interleave(1 + ROUNDS, SUBJECTS.length, async (index) => {
    const own = await withFolder(async (folder) => await SUBJECTS[index]?.(folder))
    if (own !== undefined) times[index]?.push(own)
  })
  const [store = [], file = []] = times
  const rows = [
    toRow(
      'append to the embedded store',
      store.map(({ append }) => append),
    ),
    toRow(
      'append to a file',
      file.map(({ append }) => append),
    ),
    toRow(
      'fdatasync of that file',
      file.map(({ sync = [] }) => sync),
    ),
  ]
  printTable(`embedded log: time of an append, ${TURNS} turns, ${PER_SECOND} deltas/s each`, rows)
  const [ours, , floor] = rows.map((row) => row['p99 ms'])
  expectRatio('embedded: append p99 / fdatasync p99', (ours ?? NaN) / (floor ?? NaN), 3)
}

/** @param {string} name @param {number[][]} times by round, the first separately */
function toRow(name, [first = [], ...rounds]) {
  /** @param {number} share */
  const typical = (share) => median(rounds.map((own) => quantile(own, share)))
  return {
    time: name,
    'p50 ms': typical(0.5),
    'p99 ms': typical(0.99),
    'longest ms': Math.max(...rounds.flat()),
    'first p99': quantile(first, 0.99),
  }
}
