// Q: how much latency does the gateway add to a notification of the codex app-server?
// Load: a Responses server sends 50 timestamped tokens a second. A client of the app-server measures the age of each
//     notification, a client of the gateway the age of each Chat Completions chunk. Both app-servers have the same
//     configuration. They and the gateway run in separate processes, alternately; the gateway has an embedded store.
//     Needs the codex of packages/turnstream/test/clients/codex (436 MB, from npm).

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { fileURLToPath } from 'node:url'
import { installTestClients } from '../scripts/install-test-clients.mjs'
import { withServer } from './gateway-clients.mjs'
import { withFolder } from './log-stores.mjs'
import { expectRatio, isQuick, median, pause, printTable, quantile } from './measure.mjs'
import { turnstream } from './turnstream.mjs'
import { findCodex } from './turnstream-server.mjs'

const TOKENS = 150
const GAP_MS = 20
const ROUNDS = isQuick ? 2 : 5
/** Limit of the added median. */
const LIMIT_MS = 10

const CLIENTS = fileURLToPath(
  new URL('../packages/turnstream/test/clients/codex/', import.meta.url),
)

/** @param {import('node:http').ServerResponse} response @param {string} type @param {object} fields */
function send(response, type, fields) {
  response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`)
}

/** Sends the current time as tokens, as a Responses API. @param {import('node:http').ServerResponse} response */
async function sayTheTime(response) {
  const about = { id: 'resp_1', object: 'response', created_at: 1, model: 'model' }
  const message = { id: 'msg_1', type: 'message', role: 'assistant' }
  const place = { item_id: message.id, output_index: 0, content_index: 0 }
  let text = ''
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  send(response, 'response.created', { response: { ...about, status: 'in_progress', output: [] } })
  const item = { ...message, status: 'in_progress', content: [] }
  send(response, 'response.output_item.added', { output_index: 0, item })
  for (let token = 0; token < TOKENS; token++) {
    const delta = `${performance.now()} `
    text += delta
    send(response, 'response.output_text.delta', { ...place, delta })
    await pause(GAP_MS)
  }
  const content = [{ type: 'output_text', text, annotations: [] }]
  const done = { ...message, status: 'completed', content }
  send(response, 'response.output_item.done', { output_index: 0, item: done })
  const usage = { input_tokens: 1, output_tokens: TOKENS, total_tokens: TOKENS + 1 }
  const completed = { ...about, status: 'completed', output: [done], usage }
  send(response, 'response.completed', { response: completed })
  response.end()
}

/** @template T @param {(url: string) => Promise<T>} use @returns {Promise<T>} */
async function withResponsesVendor(use) {
  const server = createServer((incoming, response) => {
    incoming.resume()
    void sayTheTime(response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  try {
    return await use(`http://127.0.0.1:${port}/v1`)
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

/** A client of an app-server that only records when tokens arrive. @param {string} binary @param {string} home */
function openAppServer(binary, home) {
  const env = { PATH: process.env['PATH'] ?? '', HOME: home, CODEX_HOME: home, RUST_LOG: 'error' }
  const child = spawn(binary, ['app-server'], { env, stdio: ['pipe', 'pipe', 'ignore'] })
  /** @type {Map<number, (result: any) => void>} */
  const pending = new Map()
  /** @type {(message: any) => void} */
  let listen = () => {}
  let rest = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    const lines = `${rest}${text}`.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const message = JSON.parse(line)
      if (message.method === undefined) pending.get(message.id)?.(message.result)
      else listen(message)
    }
  })
  let id = 0
  /** @param {string} method @param {object} params @returns {Promise<any>} */
  const call = (method, params) => {
    id += 1
    child.stdin.write(`${JSON.stringify({ method, id, params })}\n`)
    return new Promise((resolve) => pending.set(id, resolve))
  }
  return {
    async start() {
      const clientInfo = { name: 'bench', title: null, version: '1' }
      await call('initialize', { clientInfo, capabilities: { experimentalApi: true } })
      child.stdin.write('{"method":"initialized"}\n')
    },
    /** Runs a turn as the gateway does. @param {number[]} ages */
    async readTurn(ages) {
      const thread = { ephemeral: true, environments: [], experimentalRawEvents: true }
      const started = await call('thread/start', { ...thread, model: 'model' })
      const threadId = started.thread.id
      const ended = new Promise((resolve) => {
        listen = ({ method, params }) => {
          const now = performance.now()
          if (params.threadId !== threadId) return
          if (method === 'item/agentMessage/delta') ages.push(now - Number(params.delta))
          if (method === 'turn/completed') resolve(undefined)
        }
      })
      const content = [{ type: 'input_text', text: 'the time' }]
      await call('thread/inject_items', {
        threadId,
        items: [{ type: 'message', role: 'user', content }],
      })
      await call('turn/start', { threadId, input: [] })
      await ended
    },
    async close() {
      child.kill()
      await once(child, 'exit')
    },
  }
}

/** Reads a completion of the gateway to its end. @param {string} url @param {number[]} ages @returns {Promise<void>} */
function readCompletion(url, ages) {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' }
    const call = request(`${url}/v1/chat/completions`, { method: 'POST', headers }, (response) => {
      if (response.statusCode !== 200)
        reject(new Error(`the gateway answered ${response.statusCode}`))
      const decoder = new turnstream.SseDecoder()
      response.on('data', (bytes) => {
        const now = performance.now()
        for (const { data } of decoder.feed(bytes)) {
          const text = data === '[DONE]' ? '' : JSON.parse(data).choices?.[0]?.delta?.content
          if (text) ages.push(now - Number(text))
        }
      })
      response.once('end', resolve)
      response.once('error', reject)
    })
    call.once('error', reject)
    const messages = [{ role: 'user', content: 'the time' }]
    call.end(JSON.stringify({ model: 'codex/model', stream: true, messages }))
  })
}

/** @param {string} vendor @param {string} folder */
async function compare(vendor, folder) {
  const binary = findCodex(`${CLIENTS}node_modules/.bin/codex`)
  const home = `${folder}/codex`
  /** @type {Record<'notification' | 'gateway', number[]>} */
  const ages = { notification: [], gateway: [] }
  const spec = { kind: /** @type {const} */ ('gateway'), vendor, store: `${folder}/store` }
  await withServer({ ...spec, codex: { binary, home } }, async ({ url }) => {
    // The first turn starts the process and writes its home.
    await readCompletion(url, [])
    const direct = openAppServer(binary, home)
    try {
      await direct.start()
      await direct.readTurn([])
      for (let round = 0; round < ROUNDS; round++) {
        await direct.readTurn(ages.notification)
        await readCompletion(url, ages.gateway)
      }
    } finally {
      await direct.close()
    }
  })
  return ages
}

/** @param {string} path @param {readonly number[]} times */
function row(path, times) {
  return { path, 'p50 ms': quantile(times, 0.5), 'p99 ms': quantile(times, 0.99) }
}

export async function benchCodexLatency() {
  installTestClients(CLIENTS)
  const ages = await withResponsesVendor((vendor) =>
    withFolder((folder) => compare(vendor, folder)),
  )
  printTable(`codex: from the vendor's token to its reader, ${1000 / GAP_MS} tokens/s`, [
    row('notification of the app-server', ages.notification),
    row('chunk of the gateway', ages.gateway),
  ])
  const added = median(ages.gateway) - median(ages.notification)
  expectRatio('codex: added p50 in ms', added, LIMIT_MS)
}
