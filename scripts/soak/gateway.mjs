// A gateway in a separate process, with a clock that can be stepped, which reports its health.
//
//     fork('gateway.mjs', [JSON.stringify({ store, tenants })])
//
// Receives { off: ms }; sends { url } once, then a sample each second. Ends with its parent.
import { readdirSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { LEASE_MS, RETENTION_MS, waitedForCpu } from './processes.mjs'

/** @typedef {{ kind: 'embedded', directory: string } | { kind: 'redis', url: string }} Store */
/**
 * @typedef {object} Sample
 * @property {number} at Milliseconds since the epoch.
 * @property {number} rss Bytes.
 * @property {number} heap Bytes after a garbage collection, ArrayBuffers included.
 * @property {number} handles Open file descriptors, or active resources where those cannot be counted.
 * @property {number} delay The 99th percentile of event-loop delay in the last second, in milliseconds.
 * @property {number} starved Milliseconds of the last second that the main thread waited for a CPU. 0 if unknown.
 * @property {number} running Turns.
 */

const built = new URL('../../packages/turnstream/dist/', import.meta.url)
/** @type {typeof import('../../packages/turnstream/src/server.ts')} */
const server = await import(new URL('server.js', built).href)
/** @type {typeof import('../../packages/turnstream/src/index.ts')} */
const library = await import(new URL('index.js', built).href)
/** @type {typeof import('../../packages/core/src/async/clock.ts')} */
const { systemClock } = await import('@turnstream/core/internal/async/clock')
/** @type {typeof import('../../packages/turnstream/src/cli/demo/recordings.ts')} */
const demo = await import(new URL('cli/demo/recordings.js', built).href)

const SWEEP_MS = 2000
/** The recordings, played many times faster. */
const SPEED = 15
const SAMPLE_MS = 1000

/** @type {{ name: string, store: Store, keys: import('../../packages/turnstream/src/server.ts').KeyEntry[] }} */
const { name, store, keys } = JSON.parse(process.argv[2] ?? '')

let off = 0
const clock = { ...systemClock, now: () => systemClock.now() + off }

/** @param {unknown} message */
function report(message) {
  if (process.connected) process.send?.(message)
}

/** @param {unknown} error */
const onError = (error) => report({ error: `${new Date().toISOString()} ${String(error)}` })

function openLog() {
  const options = { retentionMs: RETENTION_MS, clock }
  return store.kind === 'embedded'
    ? server.openEmbeddedLog({ ...options, directory: store.directory, sweepMs: SWEEP_MS })
    : server.openRedisLog({ ...options, url: store.url, onError })
}

const log = await openLog().catch((/** @type {unknown} */ error) => {
  onError(error)
  process.exit(1)
})

const provider = library.createScriptedProvider({
  recordings: demo.demoRecordings,
  speed: SPEED,
  clock,
})
const models = demo.DEMO_MODELS
const gateway = server.createGateway({
  log,
  providers: new server.Providers([{ provider, models, defaultModel: 'answer' }]),
  instance: name,
  leaseMs: LEASE_MS,
  clock,
  keys: new server.KeyRing(keys),
  limits: { submitsPerMinute: Infinity, maxRunningTurns: Infinity },
  heartbeatMs: 2000,
  shutdownGraceMs: 5000,
  onError,
})
const listening = await server.listen(gateway, { port: 0 })

function handles() {
  try {
    return readdirSync('/proc/self/fd').length
  } catch {
    return process.getActiveResourcesInfo().length
  }
}

let waited = waitedForCpu()
const delays = monitorEventLoopDelay({ resolution: 10 })
delays.enable()
const sampling = setInterval(() => {
  const delay = delays.percentile(99) / 1e6
  globalThis.gc?.()
  const { rss, heapUsed, arrayBuffers } = process.memoryUsage()
  const { running } = gateway.turns
  const heap = heapUsed + arrayBuffers
  const starved = waitedForCpu() - waited
  waited += starved
  report({ sample: { at: Date.now(), rss, heap, handles: handles(), delay, starved, running } })
  // Excludes the garbage collection above.
  delays.reset()
}, SAMPLE_MS)

async function close() {
  clearInterval(sampling)
  await listening.close()
  await log.close()
  if (process.connected) process.disconnect()
}

process.on('message', (/** @type {{ off?: number, close?: true }} */ message) => {
  if (message.off !== undefined) off = message.off
  if (message.close) void close()
})
process.once('disconnect', () => setTimeout(() => process.exit(1), 10_000).unref())
report({ url: listening.url })
