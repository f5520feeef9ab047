// Runs processes on a store, kills them or the store at random moments, and verifies after each time.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startRedis } from '../redis-server.mjs'
import { openLog } from './library.mjs'
import { Family } from './processes.mjs'
import { Random } from './random.mjs'
import { Verifier, Violation } from './verifier.mjs'

/** @typedef {import('../../packages/core/src/log/turn-log.ts').TurnLog} TurnLog */
/** @typedef {'embedded' | 'redis-client' | 'redis-server'} Target */
/** @typedef {{ kills: number, turns: number, acknowledged: number, found: number, orphans: number }} Summary */

/**
 * @typedef {object} RunOptions
 * @property {Target} target
 * @property {number} kills
 * @property {string} seed
 * @property {(summary: Summary) => void} [onKill]
 */

/** @type {readonly Target[]} */
export const TARGETS = ['embedded', 'redis-client', 'redis-server']

/** How many turns a process writes at a time, and how long a worker rests between two of them. */
const PACES = {
  embedded: { workers: 20, restMs: 0 },
  'redis-client': { workers: 8, restMs: 250 },
  'redis-server': { workers: 8, restMs: 150 },
}
const LEASE_MS = 250
/** Longer than a server restart takes, so turns continue. */
const PATIENT_LEASE_MS = 4000
const PROGRESS_LIMIT_MS = 30_000
const PROGRESS_ENTRIES = 30
/** This many turns are verified again at the end. */
const LAST_LOOK = 500

/** Rejects with the first violation. @param {RunOptions} options @returns {Promise<Summary>} */
export async function crashRun(options) {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-crash-'))
  const run = new Run(options, folder)
  try {
    if (options.target === 'embedded') await run.killEmbedded()
    else await run.withRedis()
    rmSync(folder, { recursive: true, force: true })
    return run.summary
  } catch (error) {
    const kept = `after ${run.summary.kills} kills; what is left is in ${folder}`
    throw new Violation(`${String(error)} (${kept})`, { cause: error })
  } finally {
    await run.family?.killAll()
  }
}

class Run {
  #options
  #folder
  #random
  #verifier
  #kills = 0
  /** @type {Family | undefined} */
  family

  /** @param {RunOptions} options @param {string} folder */
  constructor(options, folder) {
    const { seed, target } = options
    this.#options = options
    this.#folder = folder
    this.#random = new Random(`${seed}/${target}`)
    this.#verifier = new Verifier({ seed, random: this.#random })
  }

  /** @returns {Summary} */
  get summary() {
    const { ledger, verified, found } = this.#verifier
    const orphans = ledger.endings.size
    const { acknowledged } = ledger
    return { kills: this.#kills, turns: verified.size, acknowledged, found, orphans }
  }

  async killEmbedded() {
    const place = { directory: join(this.#folder, 'store') }
    const family = this.#family(place, LEASE_MS)
    while (this.#kills < this.#options.kills) {
      family.start()
      await this.#killOne(family)
      // Sometimes the next process starts at once and finds everything unchanged.
      if (this.#random.chance(0.25) && this.#kills < this.#options.kills) continue
      await this.#onStore(place, (log) => this.#settle(log, family))
    }
    await this.#onStore(place, (log) => this.#verifier.again(log, LAST_LOOK))
  }

  async withRedis() {
    const directory = join(this.#folder, 'redis')
    mkdirSync(directory)
    const redis = await startRedis({ directory, appendonly: 'always' })
    try {
      if (this.#options.target === 'redis-client') await this.#killClients(redis)
      else await this.#killServer(redis)
    } finally {
      await redis.stop()
    }
  }

  /** @param {{ url: string }} redis */
  async #killClients({ url }) {
    const family = this.#family({ url }, LEASE_MS)
    await this.#onStore({ url }, async (log) => {
      while (this.#kills < this.#options.kills) {
        while (family.alive.length < 2) family.start()
        await this.#killOne(family)
        // Otherwise the other process continues, and competes for the orphans of this one.
        const isLast = this.#kills === this.#options.kills
        if (!isLast && this.#random.chance(0.25)) await this.#kill(family.alive)
        if (this.#random.chance(0.2)) continue
        await this.#settle(log, family)
      }
      await family.killAll()
      await this.#settle(log, family)
      await this.#verifier.again(log, LAST_LOOK)
    })
  }

  /** @param {Awaited<ReturnType<typeof startRedis>>} redis */
  async #killServer(redis) {
    const { url } = redis
    const family = this.#family({ url }, PATIENT_LEASE_MS)
    const children = [family.start(), family.start()]
    await Promise.all(children.map((child) => child.opened()))
    await this.#onStore({ url }, async (log) => {
      while (this.#kills < this.#options.kills) {
        await delay(this.#random.between(0, 250))
        await redis.kill()
        await delay(this.#random.between(0, 60))
        await redis.restart()
        this.#noteKill()
        if (this.#random.chance(0.2)) continue
        for (const child of children) await this.#progress(family, child.journal)
        await this.#glance(log, family)
      }
      await family.killAll()
      await this.#settle(log, family)
      await this.#verifier.again(log, LAST_LOOK)
    })
  }

  /** @param {TurnLog} log @param {Family} family */
  async #glance(log, family) {
    await family.pausing(async () => {
      this.#verifier.read(family.journals)
      await this.#verifier.glance(log)
    })
  }

  /** The process continues by itself. @param {Family} family @param {string} journal */
  async #progress(family, journal) {
    const giveUpAt = Date.now() + PROGRESS_LIMIT_MS
    this.#verifier.read(family.journals)
    for (let entries = 0; entries < PROGRESS_ENTRIES; entries += this.#verifier.read([journal])) {
      this.#checkAlive(family)
      if (Date.now() > giveUpAt) throw new Violation('a process does not go on after a restart')
      await delay(10)
    }
  }

  /** A process that fails writes the reason to its journal. @param {Family} family */
  #checkAlive(family) {
    if (!family.alive.some(({ hasExited }) => hasExited)) return
    this.#verifier.read(family.journals)
    family.check()
  }

  /** @param {import('./library.mjs').Place} place @param {number} leaseMs */
  #family(place, leaseMs) {
    const { seed, target } = this.#options
    const options = { place, folder: this.#folder, seed, leaseMs, ...PACES[target] }
    this.family = new Family(options)
    return this.family
  }

  /**
   * Kills the newest process while it starts or opens the store, or any process while it works. @param {Family}
   * family
   */
  async #killOne(family) {
    const { alive } = family
    const isEarly = this.#random.chance(0.2)
    if (!isEarly) await Promise.all(alive.map((child) => child.opened()))
    await delay(this.#random.between(0, isEarly ? 200 : 300))
    this.#checkAlive(family)
    const victim = isEarly ? alive.length - 1 : this.#random.between(0, alive.length - 1)
    await this.#kill(alive.slice(victim, victim + 1))
  }

  /** @param {Family['alive']} children */
  async #kill(children) {
    for (const child of children) {
      await child.kill()
      this.#noteKill()
    }
  }

  #noteKill() {
    this.#kills += 1
    this.#options.onKill?.(this.summary)
  }

  /** @param {TurnLog} log @param {Family} family */
  async #settle(log, family) {
    this.#verifier.read(family.journals)
    const journals = family.alive.map(({ journal }) => journal)
    const isDead = (/** @type {number} */ number) => family.isOrphan(number)
    await this.#verifier.end(log, isDead, journals)
    await family.pausing(() => this.#verifier.check(log, isDead))
    this.#checkAlive(family)
  }

  /**
   * @param {import('./library.mjs').Place} place
   * @param {(log: TurnLog) => Promise<void>} use
   */
  async #onStore(place, use) {
    const log = await openLog(place)
    try {
      await use(log)
    } finally {
      await log.close()
    }
  }
}
