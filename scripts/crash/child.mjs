// The process to kill: writes turns as fast as it can, several at a time, ends orphans, and records in a journal what
// the store acknowledged.
import { setTimeout as delay } from 'node:timers/promises'
import { inspect } from 'node:util'
import { Journal } from './journal.mjs'
import { endOrphan, openLog, TurnstreamError } from './library.mjs'
import { ownTurn } from './owner.mjs'
import { nameOf, planTurn, TURNS_PER_THREAD } from './plan.mjs'
import { Random } from './random.mjs'

/**
 * @typedef {object} ChildOptions
 * @property {import('./library.mjs').Place} place
 * @property {string} journal
 * @property {string} seed
 * @property {number} firstTurn
 * @property {number} workers how many turns are written at a time
 * @property {number} restMs maximum pause of a worker between two turns
 * @property {number} leaseMs
 */

const REAP_EVERY_MS = 50
const REAP_LIMIT = 50

/** @type {ChildOptions} */
const options = JSON.parse(process.argv[2] ?? '')
const { seed, firstTurn, workers, restMs, leaseMs } = options
const journal = new Journal(options.journal)
const random = new Random(`${seed}/child/${firstTurn}`)
const { place } = options
// A killed process, unlike a stopped machine, loses nothing that it handed to the system.
const sync = random.pick(/** @type {const} */ (['commit', 'system']))
const log = await openLog('directory' in place ? { ...place, sync } : place)
process.stdout.write('open\n')

/** @type {import('./owner.mjs').OwnerOptions} */
const owner = { log, random, leaseMs, note: (...entry) => journal.note(...entry), pause: delay }

/** Writes thread after thread; every worker has its own. @param {number} worker */
async function work(worker) {
  for (let thread = worker; ; thread += workers) {
    const first = firstTurn + thread * TURNS_PER_THREAD
    for (let number = first; number < first + TURNS_PER_THREAD; number += 1) {
      const plan = planTurn(seed, number)
      const written = ownTurn(plan, owner)
      // A stalled turn does not delay the others.
      if (plan.fate === 'stall') written.catch(fail)
      if (plan.fate === 'stall' || !(await written)) break
    }
    if (restMs > 0) await delay(random.between(0, restMs))
  }
}

/** @param {string} name */
async function reap(name) {
  for (;;) {
    await endOrphans(name).catch((error) => {
      if (!(error instanceof TurnstreamError && error.code === 'STORE_UNAVAILABLE')) throw error
    })
    await delay(REAP_EVERY_MS)
  }
}

/** @param {string} name */
async function endOrphans(name) {
  for (const orphan of await log.orphans(REAP_LIMIT)) {
    const own = log.ofTenant(orphan.tenant)
    const result = await endOrphan(own, orphan.turnId, { owner: name, leaseMs })
    if (result === 'ended') journal.note('ended', nameOf(orphan))
  }
}

/** @param {unknown} error */
function fail(error) {
  journal.note('failed', inspect(error))
  process.exit(1)
}

process.on('uncaughtException', fail)
// The pipe closes when the parent process has ended, for any reason.
process.stdin.resume().on('close', () => process.exit(1))
for (let worker = 0; worker < workers; worker += 1) work(worker).catch(fail)
for (const name of ['one', 'other']) reap(name).catch(fail)
