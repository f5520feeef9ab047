// The servers that the gateway is compared with, each in a separate process: see gateway-process.mjs.
import { once } from 'node:events'
import { fdatasync, openSync, write } from 'node:fs'
import { Agent, createServer, request } from 'node:http'
import { Readable } from 'node:stream'
import { CHAT_END, chatChunk } from './chat-vendor.mjs'
import { emissionsAt, modelPaces, tokenAt } from './gateway-turns.mjs'

/** @typedef {import('node:http').IncomingMessage} IncomingMessage */
/** @typedef {import('node:http').ServerResponse} ServerResponse */
/** @typedef {import('./gateway-process.mjs').ServerSpec} ServerSpec */
/** @typedef {import('./gateway-turns.mjs').Pace} Pace */

const COMMIT_MS = 30
/** Closes an idle connection before the vendor does. */
const agent = new Agent({ keepAlive: true, timeout: 4000 })
const EVENT_STREAM = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' }

/** @param {import('node:http').RequestListener} serve @returns {Promise<string>} its address */
async function startServer(serve) {
  const server = createServer(serve)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = /** @type {import('node:net').AddressInfo} */ (server.address())
  return `http://127.0.0.1:${address.port}`
}

/** @param {IncomingMessage} incoming @returns {Promise<any>} */
async function readJson(incoming) {
  let text = ''
  for await (const chunk of incoming.setEncoding('utf8')) text += chunk
  return JSON.parse(text)
}

/** A file that is written and synced at most every 30 ms, for all writers together. */
class GroupCommittedFile {
  #file
  #queued = ''
  /** @type {(() => void)[]} */
  #waiting = []
  #isBusy = false

  /** @param {string} path */
  constructor(path) {
    this.#file = openSync(path, 'a')
  }

  /** @param {string} line @param {() => void} [onDurable] */
  append(line, onDurable) {
    this.#queued += line
    if (onDurable) this.#waiting.push(onDurable)
    if (this.#isBusy) return
    this.#isBusy = true
    setTimeout(this.#commit, COMMIT_MS)
  }

  #commit = () => {
    const text = this.#queued
    const waiting = this.#waiting
    this.#queued = ''
    this.#waiting = []
    write(this.#file, text, null, 'latin1', (error) => {
      if (error) throw error
      fdatasync(this.#file, (error) => {
        if (error) throw error
        for (const onDurable of waiting) onDurable()
        this.#isBusy = this.#queued !== ''
        if (this.#isBusy) setTimeout(this.#commit, COMMIT_MS)
      })
    })
  }
}

/**
 * Calls `send` for every token at its time, then `end`.
 * @param {Pace} pace @param {(token: string) => void} send @param {() => void} end
 */
function sayTokens({ atOnce, tokens, perSecond }, send, end) {
  let next = 0
  while (next < atOnce) send(tokenAt(next++))
  const start = performance.now()
  const sayNext = () => {
    if (next === atOnce + tokens) return end()
    send(tokenAt(next++))
    // Relative to the start, as in the scripted provider: a late token does not delay later ones.
    setTimeout(sayNext, start + ((next - atOnce) * 1000) / perSecond - performance.now())
  }
  setTimeout(sayNext, 1000 / perSecond)
}

/**
 * Accepts turns and streams them at the gateway's paths. `run` starts a turn and returns a function that attaches its
 * reader.
 * @param {(turnId: string, model: string) => (response: ServerResponse) => void} run
 */
function startTurnServer(run) {
  let submitted = 0
  /** @type {Map<string, (response: ServerResponse) => void>} */
  const turns = new Map()
  /** @param {IncomingMessage} incoming @param {ServerResponse} response */
  const submit = async (incoming, response) => {
    const { model = 'model' } = await readJson(incoming)
    submitted += 1
    const turnId = `00000000-0000-4000-8000-${String(submitted).padStart(12, '0')}`
    turns.set(turnId, run(turnId, model))
    response.writeHead(202, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ turnId }))
  }
  return startServer((incoming, response) => {
    if (incoming.method === 'POST') return void submit(incoming, response)
    const turnId = incoming.url?.split('/')[3] ?? ''
    response.writeHead(200, EVENT_STREAM)
    turns.get(turnId)?.(response)
    turns.delete(turnId)
  })
}

/**
 * The floor: timers produce the tokens, a group-committed file stores them, and the reader gets one write per
 * emission of the gateway, with the same content, once its tokens are durable.
 * @param {ServerSpec} spec
 */
export async function startFloor({ store, pace }) {
  if (!store || !pace) throw new Error('the floor needs a store and a pace')
  const file = new GroupCommittedFile(store)
  const paces = modelPaces(pace)
  const [started, ...emissions] = await emissionsAt(pace)
  const prompt = { ...emissions[0]?.output, status: 'complete', content: 'go on', origin: 'user' }
  return startTurnServer((turnId, model) => {
    /** @type {ServerResponse | undefined} */
    let reader
    let early = ''
    let isOver = false
    let frames = 0
    let tokens = 0
    let next = 0
    let content = ''
    /** @param {object | undefined} output */
    const emit = (output) => {
      const frame = `id: 1-${frames++}\ndata: ${JSON.stringify(output)}\n\n`
      if (reader) reader.write(frame)
      else early += frame
    }
    emit(started?.output)
    emit(prompt)
    sayTokens(
      paces[model] ?? pace,
      (token) => {
        tokens += 1
        content += token
        const line = `{"turn":"${turnId}","seq":${tokens},"delta":${JSON.stringify(token)}}\n`
        const emission = emissions[next]
        if (emission?.tokens !== tokens) return file.append(line)
        next += 1
        const output = { ...emission.output, turnId, content }
        file.append(line, () => emit(output))
      },
      () => {
        file.append(`{"turn":"${turnId}","end":true}\n`, () => {
          emit({ ...emissions.at(-1)?.output, turnId })
          isOver = true
          reader?.end()
        })
      },
    )
    return (response) => {
      reader = response
      response.write(early)
      if (isOver) response.end()
    }
  })
}

/** @param {string} url @param {object} body @param {(response: IncomingMessage) => void} onResponse */
function post(url, body, onResponse) {
  const headers = { 'content-type': 'application/json' }
  const call = request(`${url}/chat/completions`, { method: 'POST', agent, headers }, onResponse)
  call.once('error', (error) => {
    throw error
  })
  call.end(JSON.stringify(body))
}

/**
 * Passes a vendor's bytes through, and appends them to a group-committed file.
 * @param {ServerSpec} spec
 */
export function startFilePipe({ store = '', vendor = '' }) {
  const file = new GroupCommittedFile(store)
  return startTurnServer((turnId, model) => (response) => {
    post(vendor, { model }, (incoming) => {
      incoming.on('data', (/** @type {Buffer} */ chunk) => {
        file.append(`${turnId} ${chunk.toString('latin1')}`)
        response.write(chunk)
      })
      incoming.once('end', () => response.end())
    })
  })
}

/** Passes a vendor's bytes through: no gateway can be faster. @param {ServerSpec} spec */
export function startPipe({ vendor = '' }) {
  return startServer((incoming, response) => {
    incoming.resume()
    response.writeHead(200, EVENT_STREAM)
    post(vendor, {}, (vendorResponse) => vendorResponse.pipe(response))
  })
}

/** The same by `fetch`. @param {ServerSpec} spec */
export function startFetchPipe({ vendor }) {
  /** @param {ServerResponse} response */
  const pass = async (response) => {
    const { body } = await fetch(`${vendor}/chat/completions`, { method: 'POST', body: '{}' })
    response.writeHead(200, EVENT_STREAM)
    if (body !== null) Readable.fromWeb(/** @type {any} */ (body)).pipe(response)
  }
  return startServer((_request, response) => void pass(response))
}

/** A vendor that streams Chat Completions at a given pace. @param {ServerSpec} spec */
export function startVendor({ pace }) {
  if (!pace) throw new Error('the vendor needs a pace')
  const paces = modelPaces(pace)
  /** @param {IncomingMessage} incoming @param {ServerResponse} response */
  const answer = async (incoming, response) => {
    const { model } = await readJson(incoming)
    response.writeHead(200, EVENT_STREAM)
    response.write(chatChunk({ role: 'assistant', content: '' }))
    sayTokens(
      paces[model] ?? pace,
      (content) => response.write(chatChunk({ content })),
      () => response.end(CHAT_END),
    )
  }
  return startServer((incoming, response) => void answer(incoming, response))
}

/** Holds connections open, with the minimum of `node:http`. */
export function startRaw() {
  return startServer((_request, response) => {
    response.writeHead(200, EVENT_STREAM)
    response.write('retry: 1000\n\nid: 0-0\n\n')
  })
}

/**
 * A typical server with the AI SDK: reads the vendor's stream and serves it in the SDK's format, or as Chat
 * Completions chunks written in the route.
 * @param {ServerSpec} spec
 */
export async function startSdk({ vendor, own }) {
  // Only this server needs it, and it loads slowly.
  const { createOpenAI, streamText } = await import('./sdks.mjs')
  const model = createOpenAI({ baseURL: vendor, apiKey: 'none' }).chat('m')
  if (own) {
    return startServer((_request, response) => {
      streamText({ model, prompt: 'go on' }).pipeUIMessageStreamToResponse(response)
    })
  }
  /** @param {ServerResponse} response */
  const serve = async (response) => {
    response.writeHead(200, EVENT_STREAM)
    response.write(chatChunk({ role: 'assistant', content: '' }))
    const { fullStream } = streamText({ model, prompt: 'go on' })
    for await (const part of fullStream) {
      if (part.type === 'text-delta') response.write(chatChunk({ content: part.text }))
      else if (part.type === 'error') throw part.error
    }
    response.end(CHAT_END)
  }
  return startServer((_request, response) => void serve(response))
}
