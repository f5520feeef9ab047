// Shared by the gateway benches: a server in its own process, and its clients.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, get, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isProfiled } from './measure.mjs'
import { turnstream } from './turnstream.mjs'

/** @typedef {import('./gateway-process.mjs').ServerSpec} ServerSpec */
/** @typedef {import('./gateway-process.mjs').Spent} Spent */

const PROCESS = fileURLToPath(new URL('gateway-process.mjs', import.meta.url))
const PROFILES = join(tmpdir(), 'turnstream-profiles')
const execArgv = ['--expose-gc']
if (isProfiled) execArgv.push('--cpu-prof', `--cpu-prof-dir=${PROFILES}`)

const agent = new Agent({ keepAlive: true, maxSockets: Infinity })

/**
 * @typedef {object} Server
 * @property {string} url
 * @property {() => Promise<Spent>} spent
 * @property {() => Promise<number>} cpu The CPU time only, without a garbage collection.
 */

/**
 * @template T
 * @param {ServerSpec} spec
 * @param {(server: Server) => Promise<T>} use
 * @returns {Promise<T>}
 */
export async function withServer(spec, use) {
  const child = fork(PROCESS, { execArgv })
  const ended = once(child, 'exit')
  const failed = ended.then(([code, signal]) => {
    throw new Error(`the ${spec.kind} process ended: ${signal ?? code}`)
  })
  failed.catch(() => {}) // it ends in any case
  /** @param {import('node:child_process').Serializable} message */
  const call = async (message) => {
    child.send(message)
    const [reply] = await Promise.race([once(child, 'message'), failed])
    return reply
  }
  try {
    const url = await call(spec)
    const server = { url, spent: () => call('spent'), cpu: async () => (await call('cpu')).cpu }
    return await Promise.race([use(server), failed])
  } finally {
    // A process that is killed writes no profile.
    if (isProfiled && child.connected) child.disconnect()
    else child.kill('SIGKILL')
    await ended
  }
}

/** @param {string} url @param {{ prompt: string, model?: string }} body @returns {Promise<{ runId: string, turnId: string }>} */
export function submit(url, body) {
  return new Promise((resolve, reject) => {
    const options = { method: 'POST', agent, headers: { 'content-type': 'application/json' } }
    const call = request(`${url}/api/v2/submit`, options, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk) => {
        text += chunk
      })
      response.once('end', () => {
        if (response.statusCode === 202) resolve(JSON.parse(text))
        else reject(new Error(`${response.statusCode}: ${text}`))
      })
    })
    call.once('error', (error) => {
      if (isStaleSocket(call, error)) resolve(submit(url, body))
      else reject(error)
    })
    call.end(JSON.stringify(body))
  })
}

/**
 * The server closed a connection that was idle while a request was sent on it.
 * @param {import('node:http').ClientRequest} call @param {Error & { code?: string }} error
 */
function isStaleSocket(call, error) {
  return call.reusedSocket && error.code === 'ECONNRESET'
}

/**
 * Reads an event stream to its end.
 * @param {string} url
 * @param {(data: string, id: string | undefined) => void} [take]
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function readStream(url, take, signal) {
  return new Promise((resolve, reject) => {
    const call = get(url, { ...(signal && { signal }) }, (response) => {
      const decoder = new turnstream.SseDecoder()
      if (response.statusCode !== 200) reject(new Error(`${response.statusCode} from ${url}`))
      response.on('data', (bytes) => {
        for (const { data, id } of decoder.feed(bytes)) take?.(data, id)
      })
      response.once('end', () => resolve())
      response.once('error', reject)
      response.once('close', () => reject(new Error(`the stream of ${url} was cut`)))
    })
    call.once('error', (error) => {
      if (isStaleSocket(call, error)) resolve(readStream(url, take, signal))
      else reject(error)
    })
  })
}

/**
 * Reads a stream to its end without parsing it. Resolves with its last `chars` characters.
 * @param {string} url @param {number} chars
 * @returns {Promise<string>}
 */
export function readTail(url, chars) {
  return new Promise((resolve, reject) => {
    const call = get(url, { agent: false }, (response) => {
      let tail = ''
      response.on('data', (/** @type {Buffer} */ bytes) => {
        tail = (tail + bytes.toString('latin1', Math.max(0, bytes.length - chars))).slice(-chars)
      })
      response.once('error', reject)
      response.once('close', () => resolve(tail))
    })
    call.once('error', reject)
  })
}

/** Opens a connection that stays open; resolves with its first bytes. @param {string} url @returns {Promise<void>} */
export function openIdle(url) {
  return new Promise((resolve, reject) => {
    const call = get(url, { agent: false }, (response) => {
      response.once('data', () => resolve())
      response.on('data', () => {})
      response.once('error', () => {}) // its server is killed at the end
    })
    call.once('error', reject)
  })
}
