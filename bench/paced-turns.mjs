// Turns at a real pace, so many at once. Each is in another part of its life, so that at any time some
// begin and some end: a turn that has said everything is sealed, and another takes its place.

/** @typedef {import('../src/log/turn-log.ts').Lease} Lease */
/** @typedef {Pick<import('../src/log/turn-log.ts').TurnLog, 'create' | 'append'>} Appendable */

const LEASE_MS = 60 * 60 * 1000
/** So late a record may be, which is little against the 33 ms between two of a turn. */
const TICK_MS = 4

/** What a load needs of a log, with nothing behind it: it tells what the load itself costs. @type {Appendable} */
export const noLog = {
  async create({ turnId }) {
    const next = { events: 1, processed: 1 }
    return { turnId, runId: turnId, creation: '', epoch: 1, until: Infinity, next }
  },
  async append() {
    return ''
  },
}

/**
 * A place in which one turn follows the other. It says the same in each of them.
 * @typedef {object} Place
 * @property {string} name
 * @property {readonly string[]} texts What a turn says, an event each; the last one is its end.
 * @property {number} made How many turns it had.
 * @property {number} from Where in `texts` the turn that is under way began.
 * @property {number} at
 * @property {Promise<Lease>} created
 * @property {Lease | undefined} lease Of the turn that is under way, once it is created.
 * @property {Promise<unknown>} latest
 */

export class PacedTurns {
  #log
  #latencies
  /** @type {Place[]} */
  #places
  #appended = 0
  /** @type {unknown} */
  #failure

  /**
   * @param {Appendable} log
   * @param {readonly (readonly string[])[]} texts Of as many turns as there are at once.
   * @param {number[]} [latencies] Takes how long each append took, in ms.
   */
  constructor(log, texts, latencies) {
    this.#log = log
    this.#latencies = latencies
    this.#places = texts.map((own, index) => {
      const from = Math.floor((index / texts.length) * (own.length - 1))
      const name = `paced-${index}`
      return {
        name,
        texts: own,
        made: 1,
        from,
        at: from,
        created: this.#create(`${name}-0`),
        lease: undefined,
        latest: Promise.resolve(),
      }
    })
  }

  get appended() {
    return this.#appended
  }

  /** Goes on for so long at so many appends a second in all. @param {number} seconds @param {number} rate */
  async run(seconds, rate) {
    for (const place of this.#places) place.lease = await place.created
    const start = performance.now()
    const first = this.#appended
    await new Promise((resolve) => {
      const tick = () => {
        const passed = (performance.now() - start) / 1000
        const due = first + Math.floor(Math.min(passed, seconds) * rate)
        while (this.#appended < due) this.#appendNext()
        if (passed < seconds) setTimeout(tick, TICK_MS)
        else resolve(undefined)
      }
      tick()
    })
  }

  /** Waits for what is under way. */
  async settle() {
    await Promise.all(this.#places.map(({ latest }) => latest))
    if (this.#failure !== undefined) throw this.#failure
  }

  /** @param {string} turnId */
  #create(turnId) {
    return this.#log.create({ turnId, threadId: turnId, owner: 'bench' }, LEASE_MS)
  }

  #appendNext() {
    const place = /** @type {Place} */ (this.#places[this.#appended % this.#places.length])
    this.#appended += 1
    const data = place.texts[place.at] ?? ''
    const seq = place.at - place.from + 1
    place.at += 1
    const seal = place.at === place.texts.length
    place.latest = this.#append(place, { seq, data }, seal)
    if (seal) {
      place.created = this.#create(`${place.name}-${place.made}`)
      place.lease = undefined
      place.made += 1
      place.from = 0
      place.at = 0
    }
  }

  /** @param {Place} place @param {{ seq: number, data: string }} record @param {boolean} seal */
  #append(place, record, seal) {
    const { lease } = place
    // Nearly always; an `async` function would make the load as dear as the log.
    if (lease !== undefined && !seal && this.#latencies === undefined) {
      return this.#log.append(lease, 'events', [record]).catch(this.#fail)
    }
    return this.#appendSlowly(place, record, seal).catch(this.#fail)
  }

  /** @param {Place} place @param {{ seq: number, data: string }} record @param {boolean} seal */
  async #appendSlowly(place, record, seal) {
    const lease = await place.created
    const start = this.#latencies && performance.now()
    const kept = this.#log.append(lease, 'events', [record], { seal })
    place.lease ??= seal ? undefined : lease
    await kept
    if (start !== undefined) this.#latencies?.push(performance.now() - start)
    if (seal) await this.#log.append(lease, 'processed', [{ seq: 1, data: ENDED }], { seal })
  }

  /** @param {unknown} error */
  #fail = (error) => {
    this.#failure ??= error
  }
}

const ENDED = JSON.stringify({
  type: 'turn_complete',
  turnId: 'paced',
  threadId: 'paced',
  status: 'complete',
})
