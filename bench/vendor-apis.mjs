// Q: what does storing an answer before sending it cost, for clients of OpenAI and Anthropic?
// Load: a Chat Completions server sends 2,000 tokens as fast as it can, one per chunk; a client streams them to the
//     end. CPU per token, all threads, of the process between the two: the gateway (adapter, log, snapshots) with
//     each of its vendor APIs, the thinnest server that calls the vendor with `fetch`, like the gateway, and passes
//     the bytes through, and a server that serves the AI SDK's stream (pipeUIMessageStreamToResponse).
//     Printed only: the pass-through with node:http in and out, and the AI SDK with Chat Completions chunks written
//     in the route. Each runs in a separate process, alternately.
// First byte: the same gateway and a vendor that answers at once with one token; time from the request to the first
//     byte of the body, alternating between the APIs.
import { request } from 'node:http'
import { CHAT_END, chatChunk, withChatVendor } from './chat-vendor.mjs'
import { withServer } from './gateway-clients.mjs'
import { tokenAt, turnText } from './gateway-turns.mjs'
import {
  expectRatio,
  interleave,
  isQuick,
  measure,
  median,
  nsOf,
  printTable,
  quantile,
} from './measure.mjs'
import { turnstream } from './turnstream.mjs'

/** @typedef {import('./gateway-clients.mjs').Server} Server */
/** @typedef {import('./gateway-process.mjs').ServerSpec} ServerSpec */

const TOKENS = 2000
const TURNS = 3
const LIMIT_CHAT = 2
const AIM_CHAT = 1.5
const LIMIT_PIPE = 3
const LIMIT_CHAT_SDK = 1 / 4
const LIMIT_SDK = 1 / 5
const FIRST_BYTES = isQuick ? 60 : 400
const LIMIT_FIRST_MS = 2

const PIPE = 'node:http, bytes passed on'
const FETCH = 'fetch, bytes passed on'
const SDK = 'AI SDK, its own stream'

/**
 * Each vendor API: its path, its request body, the text of a frame, and the last frame.
 * @type {Record<string, { path: string, ask: object, textOf: (json: any) => string, end: string }>}
 */
const APIS = {
  'chat completions': {
    path: '/v1/chat/completions',
    ask: { messages: [{ role: 'user', content: 'go on' }] },
    // Of Chat Completions, or of the AI SDK's own stream.
    textOf: ({ type, delta, choices }) =>
      type === 'text-delta' ? delta : (choices?.[0]?.delta?.content ?? ''),
    end: '[DONE]',
  },
  responses: {
    path: '/v1/responses',
    ask: { input: 'go on' },
    textOf: ({ type, delta }) => (type === 'response.output_text.delta' ? delta : ''),
    end: '[DONE]',
  },
  messages: {
    path: '/v1/messages',
    ask: { max_tokens: 10_000, messages: [{ role: 'user', content: 'go on' }] },
    textOf: ({ type, delta }) => (type === 'content_block_delta' ? delta.text : ''),
    end: '{"type":"message_stop"}',
  },
}

const TEXT = turnText({ atOnce: TOKENS, tokens: 0, perSecond: 1 })

/** The body, as a list of chunks. */
const CHUNKS = [
  chatChunk({ role: 'assistant', content: '' }),
  ...Array.from({ length: TOKENS }, (_, index) => chatChunk({ content: tokenAt(index) })),
  CHAT_END,
]

/** One chunk per event loop iteration, as from a network. @param {import('node:http').ServerResponse} response */
async function sayAll(response) {
  for (const chunk of CHUNKS) {
    response.write(chunk)
    await new Promise((resolve) => setImmediate(resolve))
  }
  response.end()
}

/** Sends one token and the end. @param {import('node:http').ServerResponse} response */
async function sayOne(response) {
  response.end(`${chatChunk({ role: 'assistant', content: 'Hi' })}${CHAT_END}`)
}

/**
 * Streams an answer, and resolves with its text and the time to its first byte.
 * @param {string} url @param {string} api
 * @returns {Promise<{ text: string, firstMs: number }>}
 */
function ask(url, api) {
  const { path, ask: body, textOf, end } = /** @type {typeof APIS[string]} */ (APIS[api])
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' }
    const start = performance.now()
    const call = request(`${url}${path}`, { method: 'POST', headers }, (response) => {
      const decoder = new turnstream.SseDecoder()
      let text = ''
      let isWhole = false
      let firstMs = 0
      response.on('data', (bytes) => {
        firstMs ||= performance.now() - start
        for (const { data } of decoder.feed(bytes)) {
          if (data === end) isWhole = true
          else text += textOf(JSON.parse(data))
        }
      })
      response.once('end', () => {
        if (isWhole) resolve({ text, firstMs })
        else reject(new Error(`${response.statusCode}: no end`))
      })
      response.once('error', reject)
    })
    call.once('error', reject)
    call.end(JSON.stringify({ model: 'model', stream: true, ...body }))
  })
}

/**
 * @param {string} name
 * @param {string} api
 * @param {Server} server
 * @param {{ now: () => Promise<number> }} meter Told whose time is taken.
 */
function subject(name, api, server, meter) {
  return {
    name,
    async before() {
      meter.now = server.cpu
    },
    async run() {
      for (let turn = 0; turn < TURNS; turn++) {
        if ((await ask(server.url, api)).text !== TEXT) throw new Error(`${name} lost something`)
      }
      return TURNS * TOKENS
    },
  }
}

const CHAT = 'chat completions'

/** @type {Record<string, Omit<ServerSpec, 'vendor'>>} */
const SERVERS = {
  [PIPE]: { kind: 'pipe' },
  [FETCH]: { kind: 'fetch-pipe' },
  gateway: { kind: 'gateway' },
  ...(!isQuick && {
    [SDK]: { kind: 'sdk', own: true },
    'AI SDK, chunks made by hand': { kind: 'sdk' },
  }),
}

/**
 * All of the servers at once.
 * @param {[name: string, spec: ServerSpec][]} rest
 * @param {(servers: Map<string, Server>) => Promise<import('./measure.mjs').Figure[]>} use
 * @param {Map<string, Server>} [started]
 * @returns {Promise<import('./measure.mjs').Figure[]>}
 */
function withServers([first, ...rest], use, started = new Map()) {
  if (!first) return use(started)
  const [name, spec] = first
  return withServer(spec, (server) => withServers(rest, use, started.set(name, server)))
}

/** The gateway is called with every API, the others with one. @param {string} name */
function apisOf(name) {
  return name === 'gateway' ? Object.keys(APIS) : [CHAT]
}

/** @param {string} api */
function gatewayBy(api) {
  return `gateway, ${api}`
}

export async function benchVendorApis() {
  await benchCpu()
  await benchFirstByte()
}

async function benchCpu() {
  /** @type {{ now: () => Promise<number> }} */
  const meter = { now: async () => 0 }
  const figures = await withChatVendor(sayAll, (vendor) =>
    withServers(
      Object.entries(SERVERS).map(([name, spec]) => [name, { ...spec, vendor }]),
      (servers) =>
        measure(
          [...servers].flatMap(([name, server]) =>
            apisOf(name).map((api) => {
              const title = name === 'gateway' ? gatewayBy(api) : name
              return subject(title, api, server, meter)
            }),
          ),
          { spent: () => meter.now() },
        ),
    ),
  )
  const pipe = nsOf(figures, PIPE)
  const fetched = nsOf(figures, FETCH)
  printTable(
    `vendor APIs: CPU per token, ${TOKENS} tokens, each in a chunk`,
    figures.map(({ name, ns, first }) => ({
      server: name,
      'us per token': ns / 1000,
      'x pipe': ns / pipe,
      'x fetch': ns / fetched,
      first: first / 1000,
    })),
  )
  for (const api of Object.keys(APIS)) {
    const gateway = nsOf(figures, gatewayBy(api))
    const [limit, aim] = api === CHAT ? [LIMIT_CHAT, AIM_CHAT] : [LIMIT_PIPE]
    expectRatio(`${api}: gateway / pass-through`, gateway / fetched, limit, aim)
    const sdkLimit = api === CHAT ? LIMIT_CHAT_SDK : LIMIT_SDK
    if (!isQuick) expectRatio(`${api}: gateway / AI SDK`, gateway / nsOf(figures, SDK), sdkLimit)
  }
}

async function benchFirstByte() {
  const apis = Object.keys(APIS)
  /** @type {number[][]} */
  const times = apis.map(() => [])
  await withChatVendor(sayOne, (vendor) =>
    withServer({ kind: 'gateway', vendor }, async ({ url }) => {
      await interleave(FIRST_BYTES, apis.length, async (index, round) => {
        const { firstMs } = await ask(url, apis[index] ?? CHAT)
        if (round >= FIRST_BYTES / 4) times[index]?.push(firstMs)
      })
    }),
  )
  printTable(
    'vendor APIs: from the request to the first byte',
    apis.map((api, index) => ({
      api,
      'p50 ms': median(times[index] ?? []),
      'p99 ms': quantile(times[index] ?? [], 0.99),
    })),
  )
  const [chat = Number.NaN, ...others] = times.map(median)
  for (const [index, other] of others.entries()) {
    const name = `${apis[index + 1]}: first byte later than ${CHAT}, ms`
    expectRatio(name, Math.max(0, other - chat), LIMIT_FIRST_MS)
  }
}
