// A server in a process of its own, so that what it costs is not mixed with what its clients cost:
//
//     gateway   the gateway, with a provider that says tokens at a given pace, or one that calls a vendor
//     pipe      passes on what a vendor sends, and nothing else: what no gateway can be faster than
//     sdk       reads what a vendor sends with the AI SDK, and writes Chat Completions of it
//     raw       keeps connections open, as few lines as `node:http` needs for it
//
// It is told what to be by its first message, answers with its address, then with what it has spent
// whenever it is asked.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { Readable } from 'node:stream'
import { recordingOf } from './gateway-turns.mjs'
import { turnstream } from './turnstream.mjs'
import {
  createGateway,
  listen,
  MemoryLog,
  openEmbeddedLog,
  openRedisLog,
  Providers,
} from './turnstream-server.mjs'

/** @typedef {import('../src/index.ts').Provider} Provider */
/** @typedef {import('../src/log/turn-log.ts').TurnLog} TurnLog */

/**
 * @typedef {object} ServerSpec
 * @property {'gateway' | 'pipe' | 'raw' | 'sdk'} kind
 * @property {string} [store] A directory, or the address of a Redis; memory unless given.
 * @property {string} [vendor] The address of a Chat Completions server.
 * @property {import('./gateway-turns.mjs').Pace} [pace] Of the turns of a provider without a vendor.
 * @property {boolean} [own] The AI SDK serves its own kind of stream, and not Chat Completions.
 * @property {boolean} [timed] Takes the time from token to log; right for one turn at a time.
 *
 * @typedef {object} Spent
 * @property {number} cpu Of the whole process so far, in µs.
 * @property {number} rss
 * @property {number} events Records that were appended to log A so far.
 * @property {readonly number[]} kept How long each token took from the provider until it was kept, in ms,
 *   since this was last asked.
 */

let events = 0
/** When the tokens were said that are not kept yet. @type {number[]} */
const said = []
/** @type {number[]} */
const kept = []

/** @param {string} [store] @returns {Promise<TurnLog>} */
async function openStore(store) {
  if (store === undefined) return new MemoryLog()
  return store.startsWith('redis:')
    ? await openRedisLog({ url: store })
    : await openEmbeddedLog({ directory: store })
}

/** Notes when a provider says a token. @param {Provider} provider @returns {Provider} */
function timedProvider(provider) {
  return {
    id: provider.id,
    stream(request, run, signal) {
      const events = provider.stream(request, run, signal)
      const send = events.send.bind(events)
      events.send = (event) => {
        if (event.type === 'item_delta') said.push(performance.now())
        return send(event)
      }
      return events
    },
  }
}

/** @param {TurnLog} log */
function countedLog(log) {
  const append = log.append.bind(log)
  log.append = (lease, name, records, options) => {
    if (name === 'events') events += records.length
    return append(lease, name, records, options)
  }
  return log
}

/** Notes when a token is kept. @param {TurnLog} log */
function timedLog(log) {
  const append = log.append.bind(log)
  log.append = async (lease, name, records, options) => {
    const offset = await append(lease, name, records, options)
    const now = performance.now()
    const tokens = records.filter(({ data }) => data.includes('"type":"item_delta"')).length
    if (name === 'events') kept.push(...said.splice(0, tokens).map((at) => now - at))
    return offset
  }
  return log
}

/** @param {ServerSpec} spec @returns {Provider} */
function providerOf({ vendor = '', pace }) {
  if (pace === undefined) {
    return turnstream.createOpenaiChatProvider({ id: 'paced', baseUrl: vendor, apiKey: 'none' })
  }
  return turnstream.createScriptedProvider({ recordings: { model: recordingOf(pace) } })
}

/** One client is all of them here. */
const UNLIMITED = { submitsPerMinute: Infinity, runningTurns: Infinity, openStreams: Infinity }

/** @param {ServerSpec} spec */
async function startGateway(spec) {
  const log = await openStore(spec.store)
  const provider = providerOf(spec)
  const gateway = createGateway({
    log: spec.timed ? timedLog(log) : countedLog(log),
    providers: new Providers([
      {
        provider: spec.timed ? timedProvider(provider) : provider,
        models: ['model'],
        defaultModel: 'model',
      },
    ]),
    owner: 'bench',
    limits: UNLIMITED,
    onError: (error) => console.error(error),
  })
  return (await listen(gateway, { port: 0 })).url
}

/** @param {import('node:http').RequestListener} serve */
async function startServer(serve) {
  const server = createServer(serve)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = /** @type {import('node:net').AddressInfo} */ (server.address())
  return `http://127.0.0.1:${address.port}`
}

/** @param {ServerSpec} spec */
function startPipe({ vendor }) {
  /** @param {import('node:http').ServerResponse} response */
  const pass = async (response) => {
    const { body } = await fetch(`${vendor}/chat/completions`, { method: 'POST', body: '{}' })
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (body !== null) Readable.fromWeb(/** @type {any} */ (body)).pipe(response)
  }
  return startServer((_request, response) => void pass(response))
}

/**
 * What somebody writes who has the AI SDK: it reads the stream of the vendor and serves it in its own form, or
 * its parts are made chunks of Chat Completions by hand.
 * @param {ServerSpec} spec
 */
async function startSdk({ vendor, own }) {
  // Only this kind of server needs it, and it takes long to load.
  const { createOpenAI, streamText } = await import('./sdks.mjs')
  const model = createOpenAI({ baseURL: vendor, apiKey: 'none' }).chat('m')
  if (own) {
    return startServer((_request, response) => {
      streamText({ model, prompt: 'go on' }).pipeUIMessageStreamToResponse(response)
    })
  }
  /** @param {import('node:http').ServerResponse} response */
  const serve = async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' }
    /** @param {object} delta @param {string | null} finish_reason */
    const write = (delta, finish_reason) => {
      const choices = [{ index: 0, delta, logprobs: null, finish_reason }]
      response.write(`data: ${JSON.stringify({ ...head, choices })}\n\n`)
    }
    write({ role: 'assistant', content: '' }, null)
    const { fullStream } = streamText({ model, prompt: 'go on' })
    for await (const part of fullStream) {
      if (part.type === 'text-delta') write({ content: part.text }, null)
      else if (part.type === 'error') throw part.error
    }
    write({}, 'stop')
    response.end('data: [DONE]\n\n')
  }
  return startServer((_request, response) => void serve(response))
}

function startRaw() {
  return startServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
    response.write('retry: 1000\n\nid: 0-0\n\n')
  })
}

const START = { gateway: startGateway, pipe: startPipe, raw: startRaw, sdk: startSdk }

const [spec] = /** @type {[ServerSpec]} */ (await once(process, 'message'))
process.on('message', (asked) => {
  const { user, system } = process.cpuUsage()
  // What is left of the past is no part of what is held now. Between short samples of time it is not
  // collected: see `sample` in measure.mjs.
  if (asked !== 'cpu') globalThis.gc?.()
  const { rss } = process.memoryUsage()
  process.send?.({ cpu: user + system, rss, events, kept: kept.splice(0) })
})
process.on('disconnect', () => process.exit())
process.send?.(await START[spec.kind](spec))
