// One soak: two gateways that must stay healthy, two that are killed, and a Redis with outages.
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Random } from '../crash/random.mjs'
import { startRedis } from '../redis-server.mjs'
import { live } from './people.mjs'
import { MAX_STEP_MS, SoakGateway } from './processes.mjs'
import { growth } from './verdict.mjs'

const TENANTS = ['red', 'green', 'blue']
const PEOPLE_PER_TENANT = 2

/** @typedef {Awaited<ReturnType<typeof soakRun>>} Soak */
/** @typedef {(what: string) => import('./plot.mjs').Incident} Note */

/**
 * @typedef {object} SoakOptions
 * @property {number} minutes
 * @property {string} seed
 * @property {readonly string[]} [without] What is left out, of `kills`, `steps` and `outages`.
 * @property {(seconds: number, counts: Map<string, number>) => void} [onTick]
 */

/** @param {SoakOptions} options */
export async function soakRun({ minutes, seed, without = [], onTick }) {
  const directory = mkdtempSync(join(tmpdir(), 'turnstream-soak-'))
  const redis = await startRedis({ appendonly: 'always' })
  const gateways = makeGateways(directory, redis.url)
  const mortal = gateways.filter(({ isMortal }) => isMortal)
  /** @type {Map<string, number>} */
  const counts = new Map()
  /** @type {import('./plot.mjs').Incident[]} */
  const incidents = []
  const count = (/** @type {string} */ name) => counts.set(name, (counts.get(name) ?? 0) + 1)
  const note = (/** @type {string} */ what) => {
    count(what)
    /** @type {import('./plot.mjs').Incident} */
    const incident = { at: Date.now(), what }
    incidents.push(incident)
    return incident
  }
  const since = Date.now()
  const until = since + minutes * 60_000
  /** @type {{ error: unknown, at: number } | undefined} */
  let failure
  const isOver = () => failure !== undefined || Date.now() >= until
  const ticking = setInterval(() => onTick?.((Date.now() - since) / 1000, counts), 1000)
  try {
    await Promise.all(gateways.map((gateway) => gateway.start()))
    const work = [
      ...gateways.flatMap((gateway) =>
        peopleOf(gateway, seed, count).map((one) => live(one, isOver)),
      ),
      ...(without.includes('kills') ? [] : mortal.map((one) => killAgain(one, seed, note, isOver))),
      ...(without.includes('steps') ? [] : [stepClocks(gateways, seed, note, isOver)]),
      ...(without.includes('outages') ? [] : [interruptRedis(redis, seed, note, isOver)]),
    ]
    // The first failure stops the others and is reported.
    await Promise.all(
      work.map((one) =>
        one.catch((/** @type {unknown} */ error) => {
          failure ??= { error, at: Date.now() }
        }),
      ),
    )
    if (failure !== undefined) throw describeFailure(failure, { since, gateways, incidents })
    await Promise.all(gateways.map((gateway) => gateway.close()))
  } finally {
    clearInterval(ticking)
    await Promise.all(gateways.map((gateway) => gateway.kill()))
    await redis.stop()
    rmSync(directory, { recursive: true, force: true })
  }
  const steady = gateways.filter(({ isMortal }) => !isMortal)
  const series = steady.map(({ name, samples }) => ({ name, samples, growth: growth(samples) }))
  return { series, incidents, counts }
}

/** How much history a failure report covers. */
const LOOK_BACK_MS = 60_000

/**
 * Adds what distinguishes a fault from a starved machine: earlier incidents, how long each gateway was starved, and
 * its errors.
 * @param {{ error: unknown, at: number }} failure
 * @param {{ since: number, gateways: readonly SoakGateway[], incidents: readonly import('./plot.mjs').Incident[] }} run
 */
function describeFailure({ error, at }, { since, gateways, incidents }) {
  const isRecent = (/** @type {{ at: number }} */ each) => each.at > at - LOOK_BACK_MS
  const events = incidents.filter(isRecent).map((incident) => {
    const lasted = incident.ms === undefined ? '' : ` of ${incident.ms} ms`
    return `${new Date(incident.at).toISOString()} ${incident.what}${lasted}`
  })
  const states = gateways.flatMap(({ name, samples, errors }) => {
    const recent = samples.filter(isRecent)
    const pauses = recent.slice(1).map((sample, index) => sample.at - (recent[index]?.at ?? 0))
    const starved = recent.reduce((sum, sample) => sum + sample.starved, 0)
    const longest = Math.max(0, ...pauses)
    return [
      `${name}: waited ${starved.toFixed(0)} ms for a CPU, ${longest} ms between two samples`,
      ...errors.map((each) => `  ${each}`),
    ]
  })
  const load = loadavg().map((each) => each.toFixed(1))
  const lines = [
    `${new Date(at).toISOString()} ${String(error)}`,
    `after ${((at - since) / 1000).toFixed(0)} s, load ${load.join(' ')}`,
    ...events,
    ...states,
  ]
  return new Error(lines.join('\n'), { cause: error })
}

/** @param {string} directory @param {string} url */
function makeGateways(directory, url) {
  const keys = TENANTS.map((tenant) => {
    const sha256 = createHash('sha256').update(keyOf(tenant)).digest('hex')
    return { tenant, name: 'soak', sha256 }
  })
  const embedded = (/** @type {string} */ name) =>
    /** @type {const} */ ({ kind: 'embedded', directory: join(directory, name) })
  const redis = /** @type {const} */ ({ kind: 'redis', url })
  return [
    new SoakGateway('embedded', embedded('steady'), { isMortal: false, keys }),
    new SoakGateway('redis', redis, { isMortal: false, keys }),
    new SoakGateway('embedded-killed', embedded('killed'), { isMortal: true, keys }),
    new SoakGateway('redis-killed', redis, { isMortal: true, keys }),
  ]
}

/** @param {string} tenant */
function keyOf(tenant) {
  return `key-of-${tenant}`
}

/** @param {SoakGateway} gateway @param {string} seed @param {(name: string) => void} count */
function peopleOf(gateway, seed, count) {
  return TENANTS.flatMap((tenant) =>
    Array.from({ length: PEOPLE_PER_TENANT }, (_, index) => ({
      gateway,
      tenant,
      key: keyOf(tenant),
      random: new Random(`${seed} ${gateway.name} ${tenant} ${index}`),
      count,
    })),
  )
}

/** @param {SoakGateway} gateway @param {string} seed @param {Note} note @param {() => boolean} isOver */
async function killAgain(gateway, seed, note, isOver) {
  const random = new Random(`${seed} kills ${gateway.name}`)
  while (await passed(random.between(4000, 15_000), isOver)) {
    await gateway.kill()
    note('kill')
    // Its store may be unavailable at that moment.
    while (!(await hasStarted(gateway))) await delay(200)
  }
}

/** @param {SoakGateway} gateway */
async function hasStarted(gateway) {
  try {
    await gateway.start()
    return true
  } catch {
    return false
  }
}

/** @param {SoakGateway[]} gateways @param {string} seed @param {Note} note @param {() => boolean} isOver */
async function stepClocks(gateways, seed, note, isOver) {
  const random = new Random(`${seed} steps`)
  while (await passed(random.between(5000, 15_000), isOver)) {
    // Up to more than a lease. A killed gateway starts again with the right time.
    const ms = random.pick([-MAX_STEP_MS, -8000, -500, 500, 8000, MAX_STEP_MS])
    for (const gateway of gateways) gateway.setClock(ms)
    note('step')
  }
}

/** Silent, or restarted with all its data; always shorter than a lease. */
/**
 * @param {Awaited<ReturnType<typeof startRedis>>} redis
 * @param {string} seed
 * @param {Note} note
 * @param {() => boolean} isOver
 */
async function interruptRedis(redis, seed, note, isOver) {
  const random = new Random(`${seed} outages`)
  while (await passed(random.between(10_000, 25_000), isOver)) {
    const outage = note('outage')
    if (random.chance(0.5)) {
      redis.process.kill('SIGSTOP')
      await delay(random.between(200, 4000))
      redis.process.kill('SIGCONT')
    } else {
      await redis.kill()
      await delay(random.between(0, 2000))
      await redis.restart()
    }
    outage.ms = Date.now() - outage.at
  }
}

/** Waits; false if the soak is over afterwards. @param {number} ms @param {() => boolean} isOver */
async function passed(ms, isOver) {
  const until = Date.now() + ms
  while (Date.now() < until && !isOver()) await delay(100)
  return !isOver()
}
