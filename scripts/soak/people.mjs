// Simulated users of a gateway: they submit, follow, disconnect, stall, cancel, delete, list and read.
import { setTimeout as delay } from 'node:timers/promises'
import { open } from './http.mjs'
import { LEASE_MS, MAX_STEP_MS, RETENTION_MS } from './processes.mjs'
import { contentGrows, eventsInOrder, follow, readSlowly, Violation } from './reader.mjs'

/** @typedef {import('./processes.mjs').SoakGateway} SoakGateway */
/** @typedef {import('../crash/random.mjs').Random} Random */

/**
 * @typedef {object} Person
 * @property {SoakGateway} gateway
 * @property {string} tenant
 * @property {string} key
 * @property {Random} random
 * @property {(name: string) => void} count
 */

/** How a turn of a live gateway may end. */
const RECORDED_ERROR = 'overloaded_error'

/** A non-streamed answer comes with the end of its turn. */
const ANSWER_MS = 60_000

/** A gateway that had no CPU for this part of a turn, and at least half a lease, may have lost it. */
const STARVED = 0.5
const STARVED_MS = LEASE_MS / 2

/** @param {Person} person @param {() => boolean} isOver */
export async function live(person, isOver) {
  for (let turn = 1; !isOver(); turn++) await takeTurn(person, turn)
}

/** @param {Person} person @param {number} turn */
async function takeTurn(person, turn) {
  const { gateway, tenant, key, random, count } = person
  const headers = { authorization: `Bearer ${key}` }
  const turnId = `${gateway.name}-${tenant}-${turn}-${random.between(0, 1e9)}`
  const threadId = random.chance(0.8) ? `${tenant}-${random.between(1, 3)}` : `of-${turnId}`
  const model = `scripted/${random.pick(['answer', 'answer', 'thinking', 'tools', 'error', 'long'])}`
  if (random.chance(0.15)) return chat({ ...person, headers })
  const body = { turnId, threadId, model, prompt: 'x'.repeat(random.between(1, 2000)) }
  const since = { at: Date.now(), workedMs: gateway.workedMs }
  const status = await post(gateway, '/api/v2/submit', headers, body)
  if (status !== 202) {
    count(`submit ${status}`)
    await delay(random.between(10, 200))
    return
  }
  count('turns')
  const stream = { gateway, headers, random }
  const events = `/api/v2/stream/${turnId}`
  const outputs = `/xapi/turns/${turnId}/stream`
  const disturbed = disturb({ ...person, headers, turnId, threadId })
  const readings = await Promise.all([
    follow({ ...stream, path: events }, eventsInOrder(events)),
    follow({ ...stream, path: outputs }, contentGrows(outputs)),
    ...(random.chance(0.2)
      ? [readSlowly({ ...stream, path: random.pick([events, outputs]) })]
      : []),
  ])
  const hasDeleted = await disturbed
  for (const reading of readings) {
    if (reading === undefined) continue
    if (reading.how === 'gone') {
      count('gone')
      // On a busy machine a turn may expire before it is read to its end.
      const mayHaveExpired = Date.now() - since.at > RETENTION_MS - MAX_STEP_MS
      // Its thread is shared: another person may have deleted it.
      const isShared = !threadId.startsWith('of-')
      if (!hasDeleted && !isShared && !mayHaveExpired) throw new Violation(`${turnId} is gone`)
    } else if (reading.code !== undefined && reading.code !== RECORDED_ERROR) {
      const isStarved =
        !gateway.isMortal && reading.code === 'PRODUCER_LOST' && wasStarved(gateway, since)
      count(isStarved ? `${reading.code} of a starved gateway` : reading.code)
      // An unavailable store may end a turn or fail a response.
      const isAway = reading.code === 'STORE_UNAVAILABLE' && gateway.store.kind === 'redis'
      if (gateway.isMortal || isStarved || isAway) continue
      throw new Violation(`${turnId} ended with ${reading.code}`)
    }
  }
}

/**
 * Whether the gateway had no CPU for so long that it could not renew its leases.
 * @param {SoakGateway} gateway
 * @param {{ at: number, workedMs: number }} since
 */
function wasStarved(gateway, since) {
  const passedMs = Date.now() - since.at
  const starvedMs = passedMs - (gateway.workedMs - since.workedMs)
  return starvedMs > STARVED_MS && starvedMs > STARVED * passedMs
}

/**
 * Acts on the running turn. Resolves with whether the turn may be gone afterwards.
 * @param {Person & { headers: Record<string, string>, turnId: string, threadId: string }} person
 */
async function disturb({ gateway, headers, random, count, turnId, threadId }) {
  const what = random.pick([
    'nothing',
    'nothing',
    'cancel',
    'read',
    'list',
    'thread stream',
    'delete',
  ])
  await delay(random.between(0, 1500))
  count(what)
  switch (what) {
    case 'cancel':
      await post(gateway, `/api/v2/runs/${turnId}/cancel`, headers)
      return false
    case 'read':
      await request(gateway, `GET /api/v2/runs/${turnId}`, { headers })
      await request(gateway, `GET /xapi/threads/${threadId}`, { headers })
      return false
    case 'list':
      await request(gateway, 'GET /api/v2/threads', { headers })
      return false
    case 'thread stream':
      await readSlowly({ gateway, headers, random, path: `/xapi/threads/${threadId}/stream` })
      return false
    case 'delete':
      await request(gateway, `DELETE /api/v2/threads/${threadId}`, { headers })
      return true
    default:
      return false
  }
}

/** @param {Person & { headers: Record<string, string> }} person */
async function chat({ gateway, headers, random, count }) {
  const stream = random.chance(0.6)
  const status = await post(gateway, '/v1/chat/completions', headers, {
    model: random.pick(['scripted/answer', 'scripted/thinking']),
    stream,
    messages: [{ role: 'user', content: 'hello' }],
  })
  count(`chat ${status}`)
}

/** @param {SoakGateway} gateway @param {string} path @param {Record<string, string>} headers @param {object} [body] */
function post(gateway, path, headers, body = {}) {
  const init = { headers: { ...headers, 'content-type': 'application/json' } }
  return request(gateway, `POST ${path}`, { ...init, body: JSON.stringify(body) })
}

/**
 * The status, or 0 without a response: a killed gateway sends none.
 * @param {SoakGateway} gateway
 * @param {string} what Method and path.
 * @param {import('./http.mjs').Init} init
 */
async function request(gateway, what, init) {
  const [method = '', path] = what.split(' ')
  const since = { at: Date.now(), workedMs: gateway.workedMs }
  const { status, error, isLate } = await send(`${gateway.url}${path}`, { ...init, method })
  const isFine = status > 0 && status < 500
  // Only an unavailable store, a killed process or a starved one excuse a failure.
  const isExcused =
    (status === 503 && gateway.store.kind === 'redis') ||
    (status === 0 && (isLate ? wasStarved(gateway, since) : gateway.isMortal))
  if (isFine || isExcused) return status
  throw new Violation(`${what} of ${gateway.name}: ${status} ${error}`)
}

/** @param {string} url @param {import('./http.mjs').Init} init */
async function send(url, init) {
  const since = Date.now()
  try {
    const response = await open(url, init, ANSWER_MS)
    const body = Buffer.concat(await response.toArray()).toString()
    const status = response.statusCode ?? 0
    return { status, error: status < 400 ? '' : describeError(body), isLate: false }
  } catch (error) {
    return { status: 0, error: String(error), isLate: Date.now() - since >= ANSWER_MS }
  }
}

/** The code and message of an error response. @param {string} body */
function describeError(body) {
  try {
    const { code, message } = JSON.parse(body).error
    return `${code}: ${message}`
  } catch {
    return body.slice(0, 200)
  }
}
