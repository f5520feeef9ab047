// Q: what does a record cost on Redis, in CPU of client and server together?
// Load: `events`: 100 turns at once, one delta to an append and each append awaited (the hard case);
//     the same turns with 16 deltas to an append (the easy one). `processed`: the
//     snapshots of turns of 10k tokens at the default gradient, 40 turns at once. The last append of a
//     turn seals the log, so that what a seal does is part of the figure.
// Rival: XADD of the same bytes by the same client, as many in one explicit pipeline as we have on the
//     way: the JSON of the event in one field; the fields of a snapshot. It keeps everything, expires
//     nothing, and lets anyone write anything.
import {
  appendInOrder,
  connectTo,
  cpuWithRedis,
  createTurn,
  processedSink,
  withRedis,
} from './log-stores.mjs'
import { eventTexts, snapshotsOf, turnOf } from './log-turns.mjs'
import { expectRatio, isQuick, measure, nsOf, printTable } from './measure.mjs'
import { openRedisLog } from './turnstream-server.mjs'

/** @typedef {import('./log-stores.mjs').Lease} Lease */
/** @typedef {import('./log-stores.mjs').TurnLog} TurnLog */
/** @typedef {import('./log-turns.mjs').StreamMessage} StreamMessage */
/** @typedef {import('./log-turns.mjs').Turn} Turn */
/** @typedef {Awaited<ReturnType<typeof connectTo>>} Client */

const EVENT_TURNS = 100
const EVENT_TOKENS = 500
const BURST = 16
const SNAPSHOT_TURNS = 40
const SNAPSHOT_TOKENS = 10_000

/** @param {readonly (readonly unknown[])[]} perTurn */
const countOf = (perTurn) => perTurn.reduce((sum, { length }) => sum + length, 0)

/** @param {number} count @param {number} tokens */
const turnsOf = (count, tokens) =>
  Array.from({ length: count }, (_, index) => turnOf(index, tokens))

/**
 * A subject that writes to turns of ours, which are made before each sample and deleted after it.
 * @param {string} name @param {TurnLog} log @param {Turn[]} turns
 * @param {(leases: Lease[]) => Promise<number>} write
 */
function ours(name, log, turns, write) {
  /** @type {Lease[]} */
  let leases = []
  return {
    name,
    async before() {
      leases = await Promise.all(turns.map((turn) => createTurn(log, turn)))
    },
    run: () => write(leases),
    async after() {
      await Promise.all(turns.map(({ turnId }) => log.deleteTurn(turnId)))
    },
  }
}

/**
 * @template T
 * @param {string} name @param {Client} client @param {T[][]} perTurn
 * @param {{ depth: number, fieldsOf: (record: T) => Record<string, string> }} options How many records
 *   of each turn go into one pipeline, and what of a record is kept.
 */
function raw(name, client, perTurn, { depth, fieldsOf }) {
  const keys = perTurn.map((_, index) => `raw:{${index}}`)
  const longest = Math.max(...perTurn.map(({ length }) => length))
  return {
    name,
    async run() {
      for (let from = 0; from < longest; from += depth) {
        const pipeline = client.multi()
        for (const [index, records] of perTurn.entries()) {
          const key = keys[index] ?? ''
          const end = Math.min(from + depth, records.length)
          for (let at = from; at < end; at++) {
            pipeline.xAdd(key, `1-${at + 1}`, fieldsOf(/** @type {T} */ (records[at])))
          }
        }
        await pipeline.execAsPipeline()
      }
      return countOf(perTurn)
    },
    async after() {
      await client.del(keys)
    },
  }
}

/** @param {string} data */
const eventFields = (data) => ({ data })

/** @param {StreamMessage} message */
function snapshotFields({ eventId, timestamp, turnId, payload }) {
  return { eventId, timestamp: String(timestamp), turnId, payload }
}

/** @param {TurnLog} log @param {Client} client */
function eventSubjects(log, client) {
  const turns = turnsOf(EVENT_TURNS, EVENT_TOKENS)
  const texts = turns.map(eventTexts)
  return [
    { name: 'events', size: 1 },
    { name: 'bursts', size: BURST },
  ].flatMap(({ name, size }) => [
    raw(`${name}, raw XADD`, client, texts, { depth: size, fieldsOf: eventFields }),
    ours(`${name}, append`, log, turns, async (leases) => {
      await Promise.all(
        leases.map((lease, index) => appendInOrder(log, lease, texts[index] ?? [], size)),
      )
      return countOf(texts)
    }),
  ])
}

/** @param {TurnLog} log @param {Client} client */
async function snapshotSubjects(log, client) {
  const turns = turnsOf(SNAPSHOT_TURNS, SNAPSHOT_TOKENS)
  const messages = await Promise.all(turns.map(snapshotsOf))
  /** @param {Lease} lease @param {StreamMessage[]} own */
  const write = async (lease, own) => {
    const store = processedSink(log, lease)
    for (const message of own) await store(message)
  }
  return [
    raw('processed, raw XADD', client, messages, { depth: 1, fieldsOf: snapshotFields }),
    ours('processed, append', log, turns, async (leases) => {
      await Promise.all(leases.map((lease, index) => write(lease, messages[index] ?? [])))
      return countOf(messages)
    }),
  ]
}

/** @type {{ name: string, limit: number, aim?: number }[]} */
const GOALS = [
  ...(isQuick
    ? []
    : [
        { name: 'events', limit: 1.5 },
        { name: 'bursts', limit: 1.5 },
      ]),
  { name: 'processed', limit: 2, aim: 1.5 },
]

export async function benchLogRedis() {
  await withRedis(async (server) => {
    const client = await connectTo(server.url)
    const log = await openRedisLog({ url: server.url })
    const subjects = await snapshotSubjects(log, client)
    if (!isQuick) subjects.unshift(...eventSubjects(log, client))
    const spent = () => cpuWithRedis(server)
    const figures = await measure(subjects, { rounds: 9, warmup: 1, spent })
    await log.close()
    client.destroy()

    const rows = GOALS.flatMap(({ name, limit, aim }) => {
      const rival = nsOf(figures, `${name}, raw XADD`)
      expectRatio(
        `redis: ${name}, append / raw XADD`,
        nsOf(figures, `${name}, append`) / rival,
        limit,
        aim,
      )
      return figures
        .filter((figure) => figure.name.startsWith(`${name},`))
        .map(({ name, ns, first }) => ({ path: name, ns, 'x raw XADD': ns / rival, first }))
    })
    printTable('log on Redis: CPU ns of client and server per record', rows)
  })
}
