// Q: what does it cost to keep an answer before it is passed on to a client of OpenAI?
// Load: a Chat Completions server says 2,000 tokens as fast as it can, each in a chunk of its own
//     as from a socket; a client requests them as a stream and reads to the end. CPU of the process between
//     the two, with all of its threads, for one token: the gateway (adapter, log, snapshots, Chat
//     Completions), the thinnest server that asks with `fetch`, as the gateway does, and passes the bytes on, and
//     servers that read with the AI SDK: one serves the result as the SDK does (pipeUIMessageStreamToResponse).
//     Printed only: the pipe with node:http in and out, and the AI SDK with Chat Completions chunks made by hand.
//     Each in a process of its own, in turns.
import { request } from 'node:http'
import { CHAT_END, chatChunk, withChatVendor } from './chat-vendor.mjs'
import { withServer } from './gateway-clients.mjs'
import { tokenAt, turnText } from './gateway-turns.mjs'
import { expectRatio, isQuick, measure, nsOf, printTable } from './measure.mjs'
import { turnstream } from './turnstream.mjs'

/** @typedef {import('./gateway-clients.mjs').Server} Server */
/** @typedef {import('./gateway-process.mjs').ServerSpec} ServerSpec */

const TOKENS = 2000
const TURNS = 3
const LIMIT_PIPE = 2
const AIM_PIPE = 1.5
const LIMIT_SDK = 1 / 4

const PIPE = 'node:http, bytes passed on'
const FETCH = 'fetch, bytes passed on'
const SDK = 'AI SDK, its own stream'

const TEXT = turnText({ atOnce: TOKENS, tokens: 0, perSecond: 1 })

/** The body, in the chunks in which it is sent. */
const CHUNKS = [
  chatChunk({ role: 'assistant', content: '' }),
  ...Array.from({ length: TOKENS }, (_, index) => chatChunk({ content: tokenAt(index) })),
  CHAT_END,
]

/** A chunk in each round of the event loop, as from a net. @param {import('node:http').ServerResponse} response */
async function sayAll(response) {
  for (const chunk of CHUNKS) {
    response.write(chunk)
    await new Promise((resolve) => setImmediate(resolve))
  }
  response.end()
}

/** In a frame of Chat Completions, or of the AI SDK. @param {any} json @returns {string} */
function textOf({ type, delta, choices }) {
  if (type === 'text-delta') return delta
  return choices?.[0]?.delta?.content ?? ''
}

/** Asks for the answer as a stream, and resolves with its text. @param {string} url @returns {Promise<string>} */
function ask(url) {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' }
    const call = request(`${url}/v1/chat/completions`, { method: 'POST', headers }, (response) => {
      const decoder = new turnstream.SseDecoder()
      let text = ''
      let isWhole = false
      response.on('data', (bytes) => {
        for (const { data } of decoder.feed(bytes)) {
          if (data === '[DONE]') isWhole = true
          else text += textOf(JSON.parse(data))
        }
      })
      response.once('end', () => {
        if (isWhole) resolve(text)
        else reject(new Error(`${response.statusCode}: no end`))
      })
      response.once('error', reject)
    })
    call.once('error', reject)
    const messages = [{ role: 'user', content: 'go on' }]
    call.end(JSON.stringify({ model: 'model', messages, stream: true }))
  })
}

/**
 * @param {string} name
 * @param {Server} server
 * @param {{ now: () => Promise<number> }} meter Told whose time is taken.
 */
function subject(name, server, meter) {
  return {
    name,
    async before() {
      meter.now = server.cpu
    },
    async run() {
      for (let turn = 0; turn < TURNS; turn++) {
        if ((await ask(server.url)) !== TEXT) throw new Error(`${name} lost something`)
      }
      return TURNS * TOKENS
    },
  }
}

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

export async function benchChatCompletions() {
  /** @type {{ now: () => Promise<number> }} */
  const meter = { now: async () => 0 }
  const figures = await withChatVendor(sayAll, (vendor) =>
    withServers(
      Object.entries(SERVERS).map(([name, spec]) => [name, { ...spec, vendor }]),
      (servers) =>
        measure(
          [...servers].map(([name, server]) => subject(name, server, meter)),
          { spent: () => meter.now() },
        ),
    ),
  )
  const pipe = nsOf(figures, PIPE)
  printTable(
    `chat completions: CPU per token, ${TOKENS} tokens, each in a chunk`,
    figures.map(({ name, ns, first }) => ({
      server: name,
      'us per token': ns / 1000,
      'x pipe': ns / pipe,
      'x fetch': ns / nsOf(figures, FETCH),
      first: first / 1000,
    })),
  )
  const gateway = nsOf(figures, 'gateway')
  const fetched = nsOf(figures, FETCH)
  expectRatio('chat completions: gateway / pass-through', gateway / fetched, LIMIT_PIPE, AIM_PIPE)
  if (isQuick) return
  expectRatio('chat completions: gateway / AI SDK', gateway / nsOf(figures, SDK), LIMIT_SDK)
}
