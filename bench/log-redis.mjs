// Q: what does a record cost on Redis, in CPU of client and server together?
// Load: `events`: 100 turns at once, one delta to an append and each append awaited (the hard case);
//     the same turns with 16 deltas at a time through a LogWriter (the easy one). `processed`: the
//     snapshots of turns of 10k tokens at the default gradient, 40 turns at once. The last append of a
//     turn seals the log, so that what a seal does is part of the figure.
// Rival: XADD of the same bytes by the same client, as many in one explicit pipeline as we have on the
//     way: the JSON of the event in one field; the fields of a snapshot. It keeps everything, expires
//     nothing, and lets anyone write anything.
import {
  appendOneByOne,
  connectTo,
  cpuWithRedis,
  createTurn,
  endsTurn,
  processedRecord,
  withRedis,
} from './log-stores.mjs'
import { eventTexts, snapshotsOf, turnOf } from './log-turns.mjs'
import { expectRatio, measure, nsOf, printTable } from './measure.mjs'
import { LogWriter, openRedisLog } from './turnstream-server.mjs'

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

/** @param {TurnLog} log @param {Lease} lease @param {string[]} texts */
async function writeBursts(log, lease, texts) {
  const writer = new LogWriter(log, lease, 'events')
  for (let from = 0; from < texts.length; from += BURST) {
    const burst = texts.slice(from, from + BURST)
    await Promise.all(
      burst.map((data, index) => writer.write(data, { seal: from + index === texts.length - 1 })),
    )
  }
}

/** @param {TurnLog} log @param {Client} client */
function eventSubjects(log, client) {
  const turns = turnsOf(EVENT_TURNS, EVENT_TOKENS)
  const texts = turns.map(eventTexts)
  const count = countOf(texts)
  return [
    raw('events, raw XADD', client, texts, { depth: 1, fieldsOf: eventFields }),
    ours('events, append', log, turns, async (leases) => {
      await Promise.all(
        leases.map((lease, index) => appendOneByOne(log, lease, texts[index] ?? [])),
      )
      return count
    }),
    raw('bursts, raw XADD', client, texts, { depth: BURST, fieldsOf: eventFields }),
    ours('bursts, LogWriter', log, turns, async (leases) => {
      await Promise.all(leases.map((lease, index) => writeBursts(log, lease, texts[index] ?? [])))
      return count
    }),
  ]
}

/** @param {TurnLog} log @param {Client} client */
async function snapshotSubjects(log, client) {
  const turns = turnsOf(SNAPSHOT_TURNS, SNAPSHOT_TOKENS)
  const messages = await Promise.all(turns.map(snapshotsOf))
  /** @param {Lease} lease @param {StreamMessage[]} own */
  const write = async (lease, own) => {
    for (const [index, message] of own.entries()) {
      const record = processedRecord(message, index + 1)
      await log.append(lease, 'processed', [record], { seal: endsTurn(message) })
    }
  }
  return [
    raw('processed, raw XADD', client, messages, { depth: 1, fieldsOf: snapshotFields }),
    ours('processed, append', log, turns, async (leases) => {
      await Promise.all(leases.map((lease, index) => write(lease, messages[index] ?? [])))
      return countOf(messages)
    }),
  ]
}

export async function benchLogRedis() {
  await withRedis(async (server) => {
    const client = await connectTo(server.url)
    const log = await openRedisLog({ url: server.url })
    const subjects = [...eventSubjects(log, client), ...(await snapshotSubjects(log, client))]
    const spent = () => cpuWithRedis(server)
    const figures = await measure(subjects, { rounds: 9, warmup: 1, spent })
    await log.close()
    client.destroy()

    const limits = [
      { ours: 'events, append', rival: 'events, raw XADD', limit: 1.5 },
      { ours: 'bursts, LogWriter', rival: 'bursts, raw XADD', limit: 1.5 },
      { ours: 'processed, append', rival: 'processed, raw XADD', limit: 2 },
    ]
    printTable(
      'log on Redis: CPU ns of client and server per record',
      figures.map(({ name, ns, first }) => {
        const rival = limits.find(({ ours }) => ours === name)?.rival ?? name
        return { path: name, ns, 'x raw XADD': ns / nsOf(figures, rival), first }
      }),
    )
    for (const { ours, rival, limit } of limits) {
      expectRatio(`redis: ${ours} / raw XADD`, nsOf(figures, ours) / nsOf(figures, rival), limit)
    }
  })
}
