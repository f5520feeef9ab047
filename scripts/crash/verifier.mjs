// Verifies a store after kills: nothing acknowledged is lost, duplicated or reordered, and every turn that was left
// open has ended once.
import { setTimeout as delay } from 'node:timers/promises'
import { readJournal } from './journal.mjs'
import { Ledger } from './ledger.mjs'
import { endOrphan } from './library.mjs'
import { observeTurn, readEvents } from './observe.mjs'
import { nameOf, placeOf, planTurn } from './plan.mjs'
import { faultOfEvents, faultOfTurn } from './verify-turn.mjs'

/** @typedef {import('../../packages/core/src/log/turn-log.ts').Orphan} Orphan */
/** @typedef {import('../../packages/core/src/log/turn-log.ts').TurnLog} TurnLog */
/** @typedef {import('./ledger.mjs').Promised} Promised */
/** @typedef {import('./random.mjs').Random} Random */

/** The store lost or changed something it acknowledged. */
export class Violation extends Error {
  /** @override */
  name = 'Violation'
}

/**
 * @typedef {object} VerifierOptions
 * @property {string} seed
 * @property {Random} random
 * @property {number} [patienceMs] how long a turn without an owner may stay open
 * @property {typeof endOrphan} [end] how orphans are ended
 */

const CLAIM_LEASE_MS = 5000
const CLAIMERS = ['first verifier', 'second verifier']
const AT_ONCE = 16

export class Verifier {
  ledger = new Ledger()
  found = 0
  /** @type {Set<number>} */
  verified = new Set()
  #options
  /** The read position in each journal. @type {Map<string, number>} */
  #places = new Map()

  /** @param {VerifierOptions} options */
  constructor(options) {
    this.#options = { patienceMs: 30_000, end: endOrphan, ...options }
  }

  /** @param {Iterable<string>} journals @returns how many entries are new */
  read(journals) {
    let count = 0
    for (const path of journals) {
      const { entries, next } = readJournal(path, this.#places.get(path))
      this.#places.set(path, next)
      count += entries.length
      for (const entry of entries) this.ledger.take(entry)
    }
    const [failure] = this.ledger.failures
    if (failure !== undefined) throw new Violation(`a process failed: ${failure}`)
    return count
  }

  /**
   * Waits until every turn with a dead owner has been ended by one of the competing processes. `journals` belong to
   * the live processes, which may have ended one.
   * @param {TurnLog} log
   * @param {(number: number) => boolean} isDead whether the owner of a turn is
   * @param {readonly string[]} journals
   */
  async end(log, isDead, journals = []) {
    const open = await this.#open(log, this.#unverified(isDead))
    await this.#end(log, open, () => this.read(journals))
    if (journals.length > 0) return
    const left = (await log.orphans(10)).map(nameOf)
    if (left.length > 0) throw new Violation(`orphans: ${left.join(' ')} is listed after its end`)
  }

  /** Checks the turns whose owners are dead. @param {TurnLog} log @param {(number: number) => boolean} isDead */
  async check(log, isDead) {
    await this.#check(log, this.#unverified(isDead))
  }

  /** Checks turns with live owners: sealed ones completely, others up to what was acknowledged. @param {TurnLog} log */
  async glance(log) {
    const turns = this.#unverified(() => true)
    const open = new Set((await this.#open(log, turns)).keys())
    await inGroups(turns, async (promised) => {
      const { number, created, events } = promised
      if (!open.has(number)) return
      const plan = planTurn(this.#options.seed, number)
      const own = log.ofTenant(plan.tenant)
      const records = created ? await readEvents(own, plan.turnId, events.head) : []
      const fault = faultOfEvents(plan, promised, records)
      if (fault !== undefined) throw new Violation(`${nameOf(plan)}: ${fault}`)
    })
    await this.#check(
      log,
      turns.filter(({ number, created }) => created && !open.has(number)),
    )
  }

  /** Verifies turns again. @param {TurnLog} log @param {number} limit */
  async again(log, limit) {
    const { random } = this.#options
    const share = limit / this.verified.size
    const turns = [...this.verified].flatMap((number) => this.ledger.turns.get(number) ?? [])
    const { found } = this
    await this.#check(
      log,
      turns.filter(() => share >= 1 || random.chance(share)),
    )
    this.found = found
  }

  /** @param {(number: number) => boolean} isWanted */
  #unverified(isWanted) {
    const turns = [...this.ledger.turns.values()]
    return turns.filter(({ number }) => isWanted(number) && !this.verified.has(number))
  }

  /** The turns that are not sealed, with their epochs. @param {TurnLog} log @param {readonly Promised[]} turns */
  async #open(log, turns) {
    /** @type {Map<number, number>} */
    const open = new Map()
    await inGroups(turns, async ({ number, created }) => {
      const record = await recordOf(log, number)
      if (record === undefined && created) {
        throw new Violation(`${nameOf(placeOf(number))}: the turn is gone`)
      }
      if (record?.sealed === false) open.set(number, record.epoch)
    })
    return open
  }

  /** @param {TurnLog} log @param {Map<number, number>} orphans @param {() => void} readJournals */
  async #end(log, orphans, readJournals) {
    const giveUpAt = Date.now() + this.#options.patienceMs
    for (let left = orphans; left.size > 0; ) {
      const found = await log.orphans(100)
      await Promise.all(CLAIMERS.map((owner) => this.#claim(log, found, owner)))
      readJournals()
      left = await this.#left(log, left)
      if (left.size === 0) return
      if (Date.now() > giveUpAt) {
        const names = [...left.keys()].map((number) => nameOf(placeOf(number)))
        throw new Violation(`${names.join(' ')}: nobody could end it`)
      }
      await delay(10)
    }
  }

  /** @param {TurnLog} log @param {readonly Orphan[]} orphans @param {string} owner */
  async #claim(log, orphans, owner) {
    for (const orphan of orphans) {
      const own = log.ofTenant(orphan.tenant)
      const result = await this.#options.end(own, orphan.turnId, { owner, leaseMs: CLAIM_LEASE_MS })
      if (result === 'ended') this.ledger.take(['ended', nameOf(orphan)])
    }
  }

  /** The orphans that no process reported as ended. @param {TurnLog} log @param {Map<number, number>} orphans */
  async #left(log, orphans) {
    /** @type {Map<number, number>} */
    const left = new Map()
    for (const [number, epoch] of orphans) {
      if (this.#endings(number) === 1) continue
      const record = await recordOf(log, number)
      // Its owner had sealed both logs, and died before the turn's record was updated.
      const wasEnded = record?.sealed === true && record.epoch === epoch
      if (!wasEnded) left.set(number, epoch)
    }
    return left
  }

  /** How many claimers ended a turn: at most one. @param {number} number */
  #endings(number) {
    const name = nameOf(placeOf(number))
    const endings = this.ledger.endings.get(name) ?? 0
    if (endings > 1) throw new Violation(`${name}: ${endings} claimers have ended it`)
    return endings
  }

  /** @param {TurnLog} log @param {readonly Promised[]} turns */
  async #check(log, turns) {
    const { seed, random } = this.#options
    await inGroups(turns, async (promised) => {
      const { number, created } = promised
      const plan = planTurn(seed, number)
      // A turn that was never acknowledged may or may not exist. If it does, the same rules apply.
      if (created || (await recordOf(log, number)) !== undefined) {
        const observed = await observeTurn(log.ofTenant(plan.tenant), plan.turnId, random)
        const fault = await faultOfTurn(plan, promised, observed)
        if (fault !== undefined) throw new Violation(`${nameOf(plan)}: ${fault}`)
        this.#endings(number)
        this.found += observed.events.length + Number(observed.snapshot.offset.split('-')[1])
      }
      this.verified.add(number)
    })
  }
}

/** @param {TurnLog} log @param {number} number */
function recordOf(log, number) {
  const { tenant, turnId } = placeOf(number)
  return log.ofTenant(tenant).getTurn(turnId)
}

/** @template T @param {readonly T[]} all @param {(one: T) => Promise<void>} task */
async function inGroups(all, task) {
  for (let at = 0; at < all.length; at += AT_ONCE) {
    await Promise.all(all.slice(at, at + AT_ONCE).map(task))
  }
}
