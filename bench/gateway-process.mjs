// A server in a separate process, so that its cost excludes its clients: the gateway, with an in-process provider or
// one that calls a vendor, or a server of rival-servers.mjs. The first message selects it. It replies with its URL,
// then to each request with the resources used.
import { once } from 'node:events'
import { createRecording, modelPaces } from './gateway-turns.mjs'
import {
  startFetchPipe,
  startFilePipe,
  startFloor,
  startPipe,
  startRaw,
  startSdk,
  startVendor,
} from './rival-servers.mjs'
import { turnstream } from './turnstream.mjs'
import {
  createCodexProvider,
  createGateway,
  createProviderFetch,
  listen,
  MemoryLog,
  openEmbeddedLog,
  openRedisLog,
  Providers,
} from './turnstream-server.mjs'

/** @typedef {import('../packages/turnstream/src/index.ts').Provider} Provider */
/** @typedef {import('../packages/core/src/log/turn-log.ts').TurnLog} TurnLog */

/**
 * @typedef {object} ServerSpec
 * @property {keyof typeof START} kind
 * @property {string} [store] A directory or the address of a Redis, by default memory; a file for a rival.
 * @property {string} [vendor] The address of a Chat Completions server.
 * @property {{ binary: string, home: string }} [codex] Calls the vendor, a Responses server, through codex.
 * @property {import('./gateway-turns.mjs').Pace} [pace] Pace of turns without a vendor.
 * @property {boolean} [spread] Offers all of `modelPaces`; by default only `model`.
 * @property {boolean} [own] The AI SDK serves its own format instead of Chat Completions.
 * @property {boolean} [timed] Measures the time from token to log; valid for one turn at a time.
 *
 * @typedef {object} Spent
 * @property {number} cpu Of the process so far, in µs.
 * @property {number} rss
 * @property {number} heap
 * @property {readonly number[]} kept How long each token took from the provider until it was stored, in ms,
 *   since the last request.
 */

/** Send times of tokens that are not stored yet. @type {number[]} */
const sent = []
/** @type {number[]} */
const kept = []

/** @param {string} [store] @returns {Promise<TurnLog>} */
async function openStore(store) {
  if (store === undefined) return new MemoryLog()
  return store.startsWith('redis:')
    ? await openRedisLog({ url: store })
    : await openEmbeddedLog({ directory: store })
}

/** Records when a provider sends a token. @param {Provider} provider @returns {Provider} */
function timedProvider(provider) {
  return {
    id: provider.id,
    stream(request, run, signal) {
      const events = provider.stream(request, run, signal)
      const add = events.addEvent.bind(events)
      const send = events.send.bind(events)
      /** @param {import('../packages/turnstream/src/index.ts').StreamEventPayload} event */
      const note = (event) => {
        if (event.type === 'item_delta') sent.push(performance.now())
      }
      events.addEvent = (event) => {
        note(event)
        add(event)
      }
      // A promise only when the buffer is full.
      events.send = (event) => {
        note(event)
        return send(event)
      }
      return events
    },
  }
}

/** Records how long a token took to be stored. @param {TurnLog} log */
function timedLog(log) {
  const open = log.open.bind(log)
  log.open = (lease, name, options = {}) =>
    open(lease, name, {
      ...options,
      onStored: (stored) => {
        const now = performance.now()
        const tokens = stored.filter((entry) => 'type' in entry && entry.type === 'item_delta')
        kept.push(...sent.splice(0, tokens.length).map((at) => now - at))
        options.onStored?.(stored)
      },
    })
  return log
}

/** @param {ServerSpec} spec @returns {Provider} */
function createProvider({ vendor = '', pace, codex, spread = false }) {
  if (codex !== undefined) {
    return createCodexProvider({ ...codex, models: ['model'], modelProvider: { baseUrl: vendor } })
  }
  if (pace === undefined) {
    // As `turnstream serve` calls its vendors.
    const fetch = createProviderFetch()
    return turnstream.createOpenaiChatProvider({
      id: 'paced',
      baseUrl: vendor,
      apiKey: 'none',
      fetch,
    })
  }
  const paces = Object.entries(spread ? modelPaces(pace) : { model: pace })
  const recordings = Object.fromEntries(paces.map(([name, own]) => [name, createRecording(own)]))
  return turnstream.createScriptedProvider({ recordings })
}

/** All clients share one key here. */
const UNLIMITED = {
  submitsPerMinute: Infinity,
  maxRunningTurns: Infinity,
  maxOpenStreams: Infinity,
}

/** @param {ServerSpec} spec */
async function startGateway(spec) {
  const log = await openStore(spec.store)
  const provider = createProvider(spec)
  const gateway = createGateway({
    log: spec.timed ? timedLog(log) : log,
    providers: new Providers([
      {
        provider: spec.timed ? timedProvider(provider) : provider,
        models: 'any',
        defaultModel: 'model',
      },
    ]),
    instance: 'bench',
    limits: UNLIMITED,
    onError: (error) => console.error(error),
  })
  return (await listen(gateway, { port: 0 })).url
}

const START = {
  gateway: startGateway,
  floor: startFloor,
  pipe: startPipe,
  'fetch-pipe': startFetchPipe,
  'file-pipe': startFilePipe,
  vendor: startVendor,
  raw: startRaw,
  sdk: startSdk,
}

const [spec] = /** @type {[ServerSpec]} */ (await once(process, 'message'))
process.on('message', (request) => {
  const { user, system } = process.cpuUsage()
  // Excludes garbage from memory in use. Between short samples of CPU time it is not collected: see `sample` in
  // measure.mjs.
  if (request !== 'cpu') globalThis.gc?.()
  const { rss, heapUsed: heap } = process.memoryUsage()
  process.send?.({ cpu: user + system, rss, heap, kept: kept.splice(0) })
})
process.on('disconnect', () => process.exit())
process.send?.(await START[spec.kind](spec))
