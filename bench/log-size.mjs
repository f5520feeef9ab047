// Q: how many bytes does an ended turn take?
// Load: 200 turns of 10k tokens (40 kB of text each), 50 at a time, one delta to an append, one snapshot
//     to an append, both logs sealed.
// Compared with: the text. Redis: MEMORY USAGE with SAMPLES 0, which visits every element, of all keys of the turns,
//     each attributed to the log of its slot. Embedded: the pages of each database in the file, and the directory
//     including free pages.
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { open } from 'lmdb'
import { connectTo, withFolder, withRedis, writeTurn } from './log-stores.mjs'
import { eventTexts, turnOf } from './log-turns.mjs'
import { expectRatio, printTable } from './measure.mjs'
import { openEmbeddedLog, openRedisLog } from './turnstream-server.mjs'

/** @typedef {import('./log-stores.mjs').TurnLog} TurnLog */
/** @typedef {import('./log-turns.mjs').Turn} Turn */

const TURNS = 200
const TOKENS = 10_000
const AT_ONCE = 50

const LIMITS = { events: 4, processed: 1.3 }

/** @param {TurnLog} log @param {Turn[]} turns */
async function writeAll(log, turns) {
  const waiting = turns.values()
  const writers = Array.from({ length: AT_ONCE }, async () => {
    for (const turn of waiting) await writeTurn(log, turn)
  })
  await Promise.all(writers)
  const [turn] = turns
  if (turn) await checkKept(log, turn)
}

/** A store that lost data would be small. @param {TurnLog} log @param {Turn} turn */
async function checkKept(log, turn) {
  const texts = eventTexts(turn)
  let index = 0
  for await (const record of log.tail(turn.turnId, 'events', '0-0', new AbortController().signal)) {
    if (!('data' in record) || record.data !== texts[index])
      throw new Error(`event ${index} differs`)
    index += 1
  }
  const { records, sealed } = await log.snapshot(turn.turnId)
  const shown = records.some(({ data }) => JSON.parse(data).content === turn.text)
  if (index !== texts.length || !sealed || !shown) throw new Error('the turn was not kept')
}

/** @typedef {{ part: string, kB: number, 'x text': number }} Row */

/** @param {string} part @param {number} bytes @param {number} text @returns {Row} */
const row = (part, bytes, text) => ({ part, kB: bytes / 1000, 'x text': bytes / text })

/** @param {string} store @param {Map<string, number>} bytes @param {number} text */
function report(store, bytes, text) {
  const rows = Array.from(bytes, ([part, size]) => row(part, size, text))
  printTable(`log: kept of ${TURNS} finished turns, ${text / 1000} kB of text, ${store}`, rows)
  for (const [name, limit] of Object.entries(LIMITS)) {
    const kept = bytes.get(name) ?? Number.NaN
    expectRatio(`size: ${store}, ${name} / text`, kept / text, limit)
  }
}

/** @param {string} key @returns {string} the part of the store to which the key belongs */
function partOfKey(key) {
  if (key.startsWith('codex:run:')) return 'events'
  return key.startsWith('codex:turn:') ? 'processed' : 'threads and indexes'
}

/** @param {string} url */
async function redisBytes(url) {
  const client = await connectTo(url)
  /** @type {Map<string, number>} */
  const bytes = new Map()
  for await (const keys of client.scanIterator({ COUNT: 1000 })) {
    const sizes = await Promise.all(keys.map((key) => client.memoryUsage(key, { SAMPLES: 0 })))
    for (const [index, key] of keys.entries()) {
      const part = partOfKey(key)
      bytes.set(part, (bytes.get(part) ?? 0) + (sizes[index] ?? 0))
    }
  }
  client.destroy()
  return bytes
}

/** @type {Record<string, string>} */
const PART_OF_TABLE = { chunks: 'events', journal: 'events', processed: 'processed' }

/** @param {string} directory */
async function embeddedBytes(directory) {
  /** @type {Map<string, number>} */
  const bytes = new Map()
  const root = open({
    path: join(directory, 'turns.mdb'),
    noSubdir: true,
    readOnly: true,
    maxDbs: 32,
  })
  for (const name of [...root.getKeys()].map(String)) {
    const stats = /** @type {Record<string, number>} */ (root.openDB({ name }).getStats())
    const {
      pageSize = 0,
      treeBranchPageCount = 0,
      treeLeafPageCount = 0,
      overflowPages = 0,
    } = stats
    const part = PART_OF_TABLE[name] ?? 'records and indexes'
    const pages = treeBranchPageCount + treeLeafPageCount + overflowPages
    bytes.set(part, (bytes.get(part) ?? 0) + pages * pageSize)
  }
  await root.close()
  const files = await readdir(directory)
  const sizes = await Promise.all(
    files.map(async (name) => (await stat(join(directory, name))).size),
  )
  bytes.set(
    'whole directory',
    sizes.reduce((sum, size) => sum + size, 0),
  )
  return bytes
}

export async function benchLogSize() {
  const turns = Array.from({ length: TURNS }, (_, index) => turnOf(index, TOKENS))
  const text = turns.reduce((sum, turn) => sum + Buffer.byteLength(turn.text), 0)
  await withRedis(async ({ url }) => {
    const log = await openRedisLog({ url })
    await writeAll(log, turns)
    await log.close()
    report('redis', await redisBytes(url), text)
  })
  await withFolder(async (directory) => {
    // Fast settings: commit interval and durability do not change the stored bytes.
    const log = await openEmbeddedLog({ directory, commitIntervalMs: 0, sync: 'system' })
    await writeAll(log, turns)
    await log.close()
    const bytes = await embeddedBytes(directory)
    report('embedded', bytes, text)
    const whole = bytes.get('whole directory') ?? Number.NaN
    expectRatio(
      'size: embedded, whole directory / text',
      whole / text,
      LIMITS.events + LIMITS.processed,
    )
  })
}
