// The gateways of a soak: started, sampled, stepped, killed and started again.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** @typedef {import('./gateway.mjs').Sample} Sample */
/** @typedef {import('./gateway.mjs').Store} Store */
/** @typedef {import('node:child_process').ChildProcess} ChildProcess */

const PROGRAM = fileURLToPath(new URL('gateway.mjs', import.meta.url))
const CLOSE_LIMIT_MS = 20_000
/** Longer than a step of the clock and a turn together. */
export const RETENTION_MS = 60_000
/** The longest step of the clock. */
export const MAX_STEP_MS = 20_000
/** Several times the longest outage. */
export const LEASE_MS = 15_000

export class SoakGateway {
  url = ''
  /** @readonly */ name
  /** @readonly */ store
  /** Whether it is killed sometimes. Only its turns may be lost. @readonly */
  isMortal
  /** @type {Sample[]} */
  samples = []
  /** The last errors that it reported. @type {string[]} */
  errors = []
  kills = 0
  /** Of the processes before this one. */
  #workedMs = 0
  /** @type {{ at: number, waitedMs: number } | undefined} */
  #ready
  #keys
  /** @type {ChildProcess | undefined} */
  #child

  /**
   * @param {string} name
   * @param {Store} store
   * @param {{ isMortal: boolean, keys: object[] }} options
   */
  constructor(name, store, { isMortal, keys }) {
    this.name = name
    this.store = store
    this.isMortal = isMortal
    this.#keys = keys
  }

  async start() {
    const { name, store } = this
    const child = fork(PROGRAM, [JSON.stringify({ name, store, keys: this.#keys })], {
      execArgv: ['--expose-gc'],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    this.#child = child
    await new Promise((resolve, reject) => {
      child.on('message', (/** @type {any} */ { url, sample, error }) => {
        if (sample !== undefined) this.samples.push(sample)
        if (error !== undefined) this.errors = [...this.errors.slice(-19), error]
        if (url === undefined) return
        this.url = url
        this.#ready = { at: Date.now(), waitedMs: waitedForCpu(child.pid) }
        resolve(undefined)
      })
      child.once('exit', (code, signal) => {
        reject(new Error(`gateway ${name} ended with ${code ?? signal}: ${this.errors.join('; ')}`))
      })
    })
  }

  get isRunning() {
    return this.#child?.exitCode === null && this.#child.signalCode === null
  }

  /** How long it was up and not starved of CPU: on a busy machine less than the elapsed time. */
  get workedMs() {
    const ready = this.#ready
    if (ready === undefined) return this.#workedMs
    const waitedMs = waitedForCpu(this.#child?.pid) - ready.waitedMs
    return this.#workedMs + Math.max(0, Date.now() - ready.at - waitedMs)
  }

  /** Sets the offset of its wall clock from this machine's. @param {number} ms */
  setClock(ms) {
    // Without a callback the EPIPE of a process that was just killed is an error event, which ends `once`.
    if (this.#child?.connected) this.#child.send({ off: ms }, () => {})
  }

  async kill() {
    const child = this.#child
    if (child === undefined || !this.isRunning) return
    this.#workedMs = this.workedMs
    this.#ready = undefined
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
    this.kills += 1
  }

  /** Ends it like SIGTERM; rejects when it does not exit by itself. */
  async close() {
    const child = this.#child
    if (child === undefined || !this.isRunning) return
    const gone = once(child, 'exit')
    child.send({ close: true })
    const timer = setTimeout(() => child.kill('SIGKILL'), CLOSE_LIMIT_MS)
    const [code, signal] = await gone
    clearTimeout(timer)
    if (code !== 0) throw new Error(`gateway ${this.name} closed with ${code ?? signal}`)
  }
}

/**
 * How long the main thread of a process waited for a CPU, in milliseconds; 0 where the system does not report it.
 * @param {number | 'self'} [pid]
 */
export function waitedForCpu(pid = 'self') {
  try {
    const [, nanoseconds] = readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')
    return Number(nanoseconds) / 1e6
  } catch {
    return 0
  }
}
