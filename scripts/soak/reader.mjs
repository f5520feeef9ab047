// Readers that disconnect and resume, or stall, and their checks.
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { open } from './http.mjs'

const built = new URL('../../packages/turnstream/dist/index.js', import.meta.url).href
/** @type {typeof import('../../packages/turnstream/src/index.ts')} */
const { SseDecoder } = await import(built)

/** @typedef {import('./processes.mjs').SoakGateway} SoakGateway */
/** @typedef {import('../crash/random.mjs').Random} Random */

/**
 * `ended`: with its terminal. `gone`: deleted or expired meanwhile.
 * @typedef {{ how: 'ended', code?: string } | { how: 'gone' }} Reading
 */

/** Maximum pause between two frames while the gateway works: several leases and outages. */
const HANG_MS = 60_000
/** The same in wall-clock time. */
const HANG_LIMIT_MS = 600_000
const RETRY_MS = 100

/**
 * @typedef {object} Stream
 * @property {SoakGateway} gateway
 * @property {Record<string, string>} headers
 * @property {string} path
 * @property {Random} random
 */

export class Violation extends Error {}

/**
 * Follows a stream to its end across disconnects, and checks each frame.
 * @param {Stream} stream
 * @param {(frame: { id: string, data: any }) => void} check
 * @returns {Promise<Reading>}
 */
export async function follow(stream, check) {
  const follower = new Follower(stream, check)
  const { gateway, path } = stream
  // A busy machine delays frames; only a gateway that could work and sends none hangs.
  while (gateway.workedMs < follower.last.workedMs + HANG_MS) {
    if (Date.now() > follower.last.at + HANG_LIMIT_MS) break
    const reading = await follower.readOnce()
    if (reading !== undefined) return reading
    await delay(RETRY_MS)
  }
  const seconds = ((Date.now() - follower.last.at) / 1000).toFixed(0)
  const state = `${follower.frames} frames, last connection: ${follower.lastOutcome}`
  throw new Violation(`${path} of ${gateway.name} hung for ${seconds} s (${state})`)
}

class Follower {
  #stream
  #check
  #cursor = ''
  frames = 0
  /** When the last frame arrived, in wall-clock time and in working time of the gateway. */
  last
  /** How the last connection ended. */
  lastOutcome = 'no connection'

  /** @param {Stream} stream @param {(frame: { id: string, data: any }) => void} check */
  constructor(stream, check) {
    this.#stream = stream
    this.#check = check
    this.last = { at: Date.now(), workedMs: stream.gateway.workedMs }
  }

  /** One connection; undefined when it broke before the end. */
  async readOnce() {
    const { path } = this.#stream
    try {
      this.lastOutcome = 'without a response'
      const response = await this.#connect()
      this.lastOutcome = String(response.statusCode)
      if (response.statusCode === 200) return await this.#read(response)
      response.destroy()
      if (response.statusCode === 404 || response.statusCode === 410) return GONE
      if (response.statusCode === 204) throw new Violation(`${path}: 204 before its end`)
    } catch (error) {
      if (error instanceof Violation) throw error
    }
    return undefined
  }

  #connect() {
    const { gateway, path, headers } = this.#stream
    const resume = this.#cursor === '' ? {} : { 'last-event-id': this.#cursor }
    return open(`${gateway.url}${path}`, { headers: { ...headers, ...resume } }, HANG_MS)
  }

  /** @param {AsyncIterable<Buffer>} response @returns {Promise<Reading | undefined>} */
  async #read(response) {
    const { random } = this.#stream
    let chunks = random.chance(0.3) ? random.between(1, 40) : Infinity
    const decoder = new SseDecoder()
    // Leaving the loop destroys the response.
    for await (const bytes of response) {
      for (const frame of decoder.feed(bytes)) {
        const end = this.#take(frame)
        if (end !== undefined) return end
      }
      this.#cursor = decoder.lastEventId || this.#cursor
      chunks -= 1
      if (chunks <= 0) break
    }
    return undefined
  }

  /** @param {{ id: string, event: string, data: string }} frame */
  #take({ id, event, data }) {
    if (data === '') return undefined
    const parsed = JSON.parse(data)
    if (event === 'error') return GONE
    this.frames += 1
    this.last = { at: Date.now(), workedMs: this.#stream.gateway.workedMs }
    this.#check({ id, data: parsed })
    return endOf(parsed)
  }
}

/** @type {Reading} */
const GONE = { how: 'gone' }

/** @param {any} data @returns {Reading | undefined} */
function endOf({ type, payload, error }) {
  switch (type) {
    case 'response_done':
    case 'turn_aborted_by_user':
    case 'turn_complete':
      return { how: 'ended' }
    case 'response_error':
      return { how: 'ended', code: payload.error.code }
    case 'turn_error':
      return { how: 'ended', code: error.code }
    default:
      return undefined
  }
}

/** Events have no gap, no repetition and no other order. @param {string} path */
export function eventsInOrder(path) {
  let last = 0
  return (/** @type {{ id: string }} */ { id }) => {
    const seq = Number(id.split('-')[1])
    if (seq !== last + 1) throw new Violation(`${path}: event ${seq} after ${last}`)
    last = seq
  }
}

/** Snapshots of an open item only grow. @param {string} path */
export function contentGrows(path) {
  /** @type {Map<string, string>} */
  const shown = new Map()
  return (/** @type {{ data: any }} */ { data: { itemId, content, status } }) => {
    if (itemId === undefined || content === undefined) return
    const before = shown.get(itemId) ?? ''
    if (status !== 'complete' && status !== 'error' && !content.startsWith(before)) {
      throw new Violation(`${path}: ${itemId} had ${before.length} characters and shrank`)
    }
    shown.set(itemId, content)
  }
}

/**
 * Opens a stream and reads nothing for a while, then reads a little or disconnects.
 * @param {Stream} stream
 */
export async function readSlowly({ gateway, headers, path, random }) {
  const { hostname, port } = new URL(gateway.url)
  const socket = connect({ host: hostname, port: Number(port) })
  socket.on('error', () => {})
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`GET ${path} HTTP/1.1\r\nhost: ${hostname}\r\n${lines.join('')}\r\n`)
  await delay(random.between(500, 6000))
  if (random.chance(0.5)) {
    socket.resume()
    await delay(random.between(1, 500))
  }
  socket.destroy()
}
