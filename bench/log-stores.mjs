// Shared by the log benches: temporary stores, and owners that write turns.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@redis/client'
import { redisCommand, startRedis } from '../scripts/redis-server.mjs'
import { processTurn } from './log-turns.mjs'
import { processCpu } from './measure.mjs'

/** @typedef {import('../packages/core/src/log/turn-log.ts').Lease} Lease */
/** @typedef {import('../packages/core/src/log/turn-log.ts').LogName} LogName */
/** @typedef {import('../packages/conformance/src/turn-log/append.ts').TextRecord} NewRecord */
/** @typedef {import('../packages/core/src/log/turn-log.ts').TurnLog} TurnLog */
/** @typedef {import('./log-turns.mjs').StreamMessage} StreamMessage */
/** @typedef {import('./log-turns.mjs').Turn} Turn */

// Longer than any bench runs: leases are not renewed here.
const LEASE_MS = 60 * 60 * 1000

/** @template T @param {(folder: string) => Promise<T>} use @returns {Promise<T>} */
export async function withFolder(use) {
  const folder = await mkdtemp(join(tmpdir(), 'turnstream-bench-'))
  try {
    return await use(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/**
 * A private Redis, so that its CPU time belongs to this bench.
 * @template T @param {(server: Awaited<ReturnType<typeof startRedis>>) => Promise<T>} use
 * @returns {Promise<T>}
 */
export async function withRedis(use) {
  const server = await startRedis()
  try {
    return await use(server)
  } finally {
    await server.stop()
  }
}

/** @param {string} url */
export async function connectTo(url) {
  const client = createClient({ url })
  // The client also emits rejections as an event, which would end the process without a listener.
  client.on('error', () => {})
  await client.connect()
  return client
}

/**
 * CPU time of this process and of Redis, in µs. `INFO` uses a separate connection, which is closed again.
 * @param {{ host: string, port: number }} server
 */
export async function cpuWithRedis(server) {
  const info = await redisCommand(server, 'INFO', 'cpu')
  /** @param {string} name */
  const seconds = (name) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1])
  return processCpu() + (seconds('used_cpu_sys') + seconds('used_cpu_user')) * 1e6
}

/** @param {TurnLog} log @param {Turn} turn @returns {Promise<Lease>} */
export function createTurn(log, { turnId, threadId }) {
  return log.create({ turnId, threadId, owner: 'bench' }, LEASE_MS)
}

/**
 * The writers that are open, by lease.
 * @type {WeakMap<Lease, Partial<Record<LogName, import('../packages/core/src/log/turn-log.ts').LogWriter<any>>>>}
 */
const writers = new WeakMap()

/**
 * Writes records and resolves once they are stored. All benches write to logs through this function.
 * @param {TurnLog} log @param {Lease} lease @param {LogName} name
 * @param {readonly NewRecord[]} records @param {boolean} [seal]
 */
export async function append(log, lease, name, records, seal = false) {
  const open = writers.get(lease) ?? {}
  writers.set(lease, open)
  const writer = (open[name] ??= log.open(lease, name))
  for (const [index, { data, eventId, timestamp }] of records.entries()) {
    const value = JSON.parse(data)
    const entry = name === 'events' ? value : { output: value, eventId, timestamp }
    if (seal && index === records.length - 1) await writer.seal(entry)
    else writer.write(entry)
  }
  await writer.flush()
}

/** @param {StreamMessage} message @param {number} seq @returns {NewRecord} */
export function processedRecord({ eventId, timestamp, payload }, seq) {
  return { seq, data: payload, eventId, timestamp }
}

/** @param {StreamMessage} message */
function endsTurn({ payload }) {
  return payload.startsWith('{"type":"turn_complete"')
}

/** @param {TurnLog} log @param {Lease} lease @returns {(message: StreamMessage) => Promise<void>} */
export function processedSink(log, lease) {
  let seq = 0
  return async (message) => {
    seq += 1
    await append(log, lease, 'processed', [processedRecord(message, seq)], endsTurn(message))
  }
}

/**
 * Both logs of a turn, one record to an append. An event goes to the processor once it is stored.
 * @param {TurnLog} log @param {Turn} turn
 */
export async function writeTurn(log, turn) {
  const lease = await createTurn(log, turn)
  let seq = 0
  /** @param {import('./log-turns.mjs').StreamEvent} event */
  const keep = async (event) => {
    seq += 1
    const seal = event.type === 'response_done'
    await append(log, lease, 'events', [{ seq, data: JSON.stringify(event) }], seal)
  }
  await processTurn(turn, processedSink(log, lease), keep)
}
