// The processes of a crash run: started, killed, and never left behind.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Violation } from './verifier.mjs'

const PROGRAM = fileURLToPath(new URL('child.mjs', import.meta.url))

/** More turns than a process writes before it is killed. */
const TURNS_PER_PROCESS = 1_000_000
const START_LIMIT_MS = 30_000

/**
 * @typedef {object} FamilyOptions
 * @property {import('./library.mjs').Place} place
 * @property {string} folder where the journals are
 * @property {string} seed
 * @property {number} workers
 * @property {number} restMs
 * @property {number} leaseMs
 */

/** All processes that a run starts, one after the other or several at once. */
export class Family {
  /** @type {Child[]} */
  #children = []
  #options

  /** @param {FamilyOptions} options */
  constructor(options) {
    this.#options = options
  }

  start() {
    const index = this.#children.length
    const child = new Child(index, this.#options)
    this.#children.push(child)
    return child
  }

  get journals() {
    return this.#children.map(({ journal }) => journal)
  }

  get alive() {
    return this.#children.filter((child) => !child.isDead)
  }

  /** Whether the process that writes this turn is dead. @param {number} number */
  isOrphan(number) {
    return this.#children[Math.floor(number / TURNS_PER_PROCESS)]?.isDead ?? false
  }

  /** The output of a process that exits by itself, which none should. */
  check() {
    const gone = this.alive.find(({ hasExited }) => hasExited)
    if (gone !== undefined) throw new Violation(`a process ended by itself: ${gone.words}`)
  }

  /** Pauses the writers: with few CPUs the verifier cannot keep up. @param {() => Promise<void>} task */
  async pausing(task) {
    const paused = this.alive
    for (const child of paused) child.pause()
    await task()
    for (const child of paused) child.resume()
  }

  async killAll() {
    await Promise.all(this.alive.map((child) => child.kill()))
  }
}

class Child {
  journal
  words = ''
  isDead = false
  #process
  #opened

  /** @param {number} index @param {FamilyOptions} options */
  constructor(index, { folder, ...options }) {
    this.journal = join(folder, `${index}.journal`)
    writeFileSync(this.journal, '')
    const firstTurn = index * TURNS_PER_PROCESS
    const args = [PROGRAM, JSON.stringify({ ...options, journal: this.journal, firstTurn })]
    this.#process = spawn(process.execPath, args, { stdio: 'pipe' })
    this.#process.stderr.on('data', (chunk) => {
      this.words = `${this.words}${chunk}`.slice(-4000)
    })
    this.#opened = once(this.#process.stdout, 'data')
  }

  get hasExited() {
    return this.#process.exitCode !== null || this.#process.signalCode !== null
  }

  /** Resolves when the process has opened the store. */
  async opened() {
    const limit = new AbortController()
    const late = delay(START_LIMIT_MS, 'late', { signal: limit.signal }).catch(() => 'never')
    const ended = once(this.#process, 'exit').then(() => 'ended')
    const first = await Promise.race([this.#opened.then(() => 'open'), ended, late])
    limit.abort()
    if (first !== 'open') throw new Violation(`a process did not open the store: ${this.words}`)
  }

  /** Suspends the process. */
  pause() {
    this.#process.kill('SIGSTOP')
  }

  resume() {
    this.#process.kill('SIGCONT')
  }

  async kill() {
    if (!this.hasExited) {
      const gone = once(this.#process, 'exit')
      this.#process.kill('SIGKILL')
      await gone
    }
    this.isDead = true
  }
}
