// Writes turns like their owner: an event goes to the processor once the log `events` has stored it.
import { digestOf } from './journal.mjs'
import { StreamProcessor, TurnstreamError } from './library.mjs'

/** @typedef {import('../../packages/core/src/log/turn-log.ts').Lease} Lease */
/** @typedef {import('../../packages/core/src/log/turn-log.ts').TurnLog} TurnLog */
/** @typedef {import('../../packages/core/src/protocol/stream-event.ts').StreamEvent} StreamEvent */
/** @typedef {import('./journal.mjs').Entry} Entry */
/** @typedef {import('./plan.mjs').PlannedTurn} PlannedTurn */
/** @typedef {import('./random.mjs').Random} Random */

/**
 * @typedef {object} OwnerOptions
 * @property {TurnLog} log
 * @property {Random} random
 * @property {number} leaseMs
 * @property {(...entry: Entry) => void} note
 * @property {(ms: number) => Promise<unknown>} pause
 */

// Snapshots by time as well as by length, within the few milliseconds that a turn lasts here.
const BATCH_TIMEOUT_MS = 5
const MAX_LATENCY_MS = 15

// Well below the processor's limit: an owner waits for its processor.
const MAX_UNSETTLED = 200

/**
 * Creates the turn and writes it as its fate allows; false if it was left before its end.
 * @param {PlannedTurn} plan
 * @param {OwnerOptions} all
 */
export async function ownTurn(plan, all) {
  const options = { ...all, log: all.log.ofTenant(plan.tenant) }
  const { log, leaseMs, note } = options
  const { number, turnId, threadId, runId } = plan
  /** @type {NodeJS.Timeout | undefined} */
  let timer
  /** @type {Owner | undefined} */
  let owner
  try {
    note('creating', number)
    const lease = await log.create({ turnId, threadId, runId, owner: 'owner' }, leaseMs)
    note('created', number)
    const made = new Owner(plan, lease, options)
    owner = made
    timer = setInterval(() => made.renew(), leaseMs / 3)
    await owner.write(0, plan.stopsAfter)
    if (plan.fate !== 'stall') return plan.fate === 'finish'
    clearInterval(timer)
    await options.pause(leaseMs * 1.5)
    await owner.write(plan.stopsAfter, plan.events.length)
    return true
  } catch (error) {
    if (!isLost(error)) throw error
    return false
  } finally {
    clearInterval(timer)
    owner?.close()
  }
}

/** The lease was lost, or the store is unavailable: the owner abandons the turn. @param {unknown} error */
function isLost(error) {
  if (!(error instanceof TurnstreamError)) return false
  if (error.code === 'RETRY_EXHAUSTED') return isLost(error.cause)
  return error.code === 'LEASE_LOST' || error.code === 'STORE_UNAVAILABLE'
}

class Owner {
  #plan
  #lease
  #options
  #events
  #outputs
  #nextOutput
  #processor
  #isLost = false

  /** @param {PlannedTurn} plan @param {Lease} lease @param {OwnerOptions} options */
  constructor(plan, lease, options) {
    this.#plan = plan
    this.#lease = lease
    this.#options = options
    this.#events = options.log.open(lease, 'events')
    this.#outputs = options.log.open(lease, 'processed')
    this.#nextOutput = lease.next.processed
    this.#processor = new StreamProcessor({
      turnId: plan.turnId,
      threadId: plan.threadId,
      batchTimeoutMs: BATCH_TIMEOUT_MS,
      maxLatencyMs: MAX_LATENCY_MS,
      retryAttempts: 0,
      onEmit: (message, output) => this.#show(message, output),
    })
  }

  renew() {
    const { log, leaseMs } = this.#options
    log.renew(this.#lease, leaseMs).catch((error) => {
      // While the store is unavailable, the next renewal may still succeed.
      if (isLost(error)) this.#isLost ||= error.code !== 'STORE_UNAVAILABLE'
      else this.#options.note('failed', `renew: ${error}`)
    })
  }

  /** @param {number} from @param {number} end */
  async write(from, end) {
    const { random, note } = this.#options
    const { events, number } = this.#plan
    /** @type {Promise<void>[]} */
    let unsettled = []
    for (let at = from; at < end && !this.#isLost; ) {
      const size = random.pick([1, 1, 1, random.between(2, 20), random.between(2, 256)])
      const batch = events.slice(at, Math.min(at + size, end))
      at += batch.length
      /** @type {StreamEvent[]} */
      const parsed = batch.map((data) => JSON.parse(data))
      const last = at === events.length ? parsed.at(-1) : undefined
      for (const event of parsed) if (event !== last) this.#events.write(event)
      await (last === undefined ? this.#events.flush() : this.#events.seal(last))
      note('events', number, at, at === events.length)
      for (const event of parsed) unsettled.push(this.#processor.processEvent(event))
      if (unsettled.length < MAX_UNSETTLED && random.chance(0.5)) continue
      await Promise.all(unsettled)
      unsettled = []
    }
    await Promise.all(unsettled)
    if (this.#isLost) throw new TurnstreamError('LEASE_LOST', this.#plan.turnId)
  }

  /**
   * @param {import('../../packages/turnstream/src/index.ts').StreamMessage} message
   * @param {import('../../packages/turnstream/src/index.ts').StreamOutput} output
   */
  async #show({ eventId, timestamp, payload }, output) {
    const seal = output.type === 'turn_complete' || output.type === 'turn_error'
    const seq = this.#nextOutput
    this.#nextOutput += 1
    const entry = { output, eventId, timestamp }
    if (!seal) this.#outputs.write(entry)
    await (seal ? this.#outputs.seal(entry) : this.#outputs.flush())
    const key = 'itemId' in output ? output.itemId : output.type
    this.#options.note('processed', this.#plan.number, seq, key, digestOf(payload), seal)
  }

  close() {
    this.#events.close()
    this.#outputs.close()
  }
}
