// Q: what does a record cost on Redis, in CPU of client and server together?
// Load: `events`: 100 turns at once, one delta to an append and each append awaited (the hard case);
//     the same turns with 16 deltas to an append (the easy one). `processed`: the
//     snapshots of turns of 10k tokens at the default gradient, 40 turns at once. The last append of a turn seals the
//     log, so the figure includes the seal. It also includes encoding a record; events, snapshots and the rival's
//     texts are created before.
// Rival: XADD of the same bytes by the same client, as many in one explicit pipeline as we have on the
//     way: the JSON of the event in one field; the fields of a snapshot. It stores everything, expires nothing and
//     checks no lease.
import { connectTo, cpuWithRedis, createTurn, withRedis } from './log-stores.mjs'
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
 * A subject that writes to our turns, which are created before each sample and deleted after it.
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
 * Writes all turns at once, `size` records of a turn per append, sequentially; the last append seals.
 * @template {import('../packages/core/src/log/turn-log.ts').LogName} Name
 * @param {TurnLog} log @param {Lease[]} leases @param {Name} name
 * @param {import('../packages/core/src/log/turn-log.ts').NewRecord<Name>[][]} perTurn @param {number} size
 */
async function writeAll(log, leases, name, perTurn, size) {
  const writeTurn = async (/** @type {Lease} */ lease, /** @type {number} */ turn) => {
    const writer = log.open(lease, name)
    const entries = perTurn[turn] ?? []
    for (const [index, entry] of entries.entries()) {
      if (index === entries.length - 1) await writer.seal(entry)
      else writer.write(entry)
      if (index % size === size - 1) await writer.flush()
    }
  }
  await Promise.all(leases.map(writeTurn))
  return countOf(perTurn)
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
  const events = turns.map((turn) => [...turn.events()])
  return [
    { name: 'events', size: 1 },
    { name: 'bursts', size: BURST },
  ].flatMap(({ name, size }) => [
    raw(`${name}, raw XADD`, client, texts, { depth: size, fieldsOf: eventFields }),
    ours(`${name}, append`, log, turns, (leases) => writeAll(log, leases, 'events', events, size)),
  ])
}

/** @param {TurnLog} log @param {Client} client */
async function snapshotSubjects(log, client) {
  const turns = turnsOf(SNAPSHOT_TURNS, SNAPSHOT_TOKENS)
  const messages = await Promise.all(turns.map(snapshotsOf))
  const outputs = messages.map((own) =>
    own.map(({ eventId, timestamp, payload }) => ({
      output: JSON.parse(payload),
      eventId,
      timestamp,
    })),
  )
  return [
    raw('processed, raw XADD', client, messages, { depth: 1, fieldsOf: snapshotFields }),
    ours('processed, append', log, turns, (leases) =>
      writeAll(log, leases, 'processed', outputs, 1),
    ),
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
