import { type Lease, LOG_NAMES, type LogName } from '@turnstream/core/internal/log/turn-log'
import { codeOf, equal } from './assert.ts'
import { type Given, LONG_MS, SHORT_MS, START } from './given.ts'
import { type Added, Model } from './model.ts'
import type { Random } from './random.ts'
import { readAll, takeFrom } from './reading.ts'
import { delta, message, responseDone, turnComplete } from './texts.ts'

const CALLS = 200
const NAMES: readonly [LogName, LogName] = ['events', 'processed']

/** Compares a log with the model, call by call. Two tenants use the same ids: neither may affect the other. */
export async function checkAgainstModel(given: Given, random: Random): Promise<void> {
  const other = await given.elsewhere()
  const runs = [
    new ModelRun(given, random, [given, other]),
    new ModelRun(given.ofTenant('beta'), random, [given.ofTenant('beta'), other.ofTenant('beta')]),
  ] as const
  for (let call = 0; call < CALLS; call++) await random.pick(runs).call()
  for (const run of runs) await run.checkEverything()
}

class ModelRun {
  readonly #given: Given
  readonly #random: Random
  readonly #model = new Model()
  /** Views of the same store. */
  readonly #places: readonly [Given, Given]
  #leases: Lease[] = []
  readonly #deleted = new Set<string>()
  readonly #turnIds: readonly [string, ...string[]]
  /** A call occurs as often as it is likely. */
  readonly #calls: readonly (() => Promise<void>)[]

  constructor(given: Given, random: Random, places: readonly [Given, Given]) {
    this.#given = given
    this.#random = random
    this.#places = places
    const { seed } = random
    this.#turnIds = [`m${seed}-1`, `m${seed}-2`, `m${seed}-3`, `m${seed}-4`]
    const weighted: readonly [weight: number, call: () => Promise<void>][] = [
      [8, () => this.#append()],
      [3, () => this.#read()],
      [2, () => this.#create()],
      [2, () => this.#claim()],
      [1, () => this.#renew()],
      [1, () => this.#cancel()],
      [2, () => this.#addOnce()],
      [1, () => this.#delete()],
    ]
    this.#calls = weighted.flatMap(([weight, call]) => Array<typeof call>(weight).fill(call))
  }

  async call(): Promise<void> {
    await this.#calls[this.#random.below(this.#calls.length)]?.()
  }

  async #create(): Promise<void> {
    const turnId = this.#random.pick(this.#turnIds)
    // Two threads, so that one is often busy.
    const threadId = `thread-${turnId.slice(0, -1)}${Number(turnId.at(-1)) % 2}`
    const replaces = this.#random.oneIn(2) ? this.#random.pick(this.#turnIds) : undefined
    const turn = { turnId, threadId, owner: 'me', ...(replaces !== undefined && { replaces }) }
    const made = await resultOf(this.#given.log.create(turn, LONG_MS))
    const isRecreated = typeof made !== 'string' && this.#deleted.has(turnId)
    const expected = this.#model.create(turn, isRecreated ? made.epoch : 1)
    this.#checkLease(made, expected, `create ${turnId}, replacing ${replaces}`)
    await this.#checkThread(threadId)
  }

  async #checkThread(threadId: string): Promise<void> {
    const { items } = await this.#random
      .pick(this.#places)
      .log.listTurns(threadId, { replaced: true })
    const listed = items.map(({ turnId, replacedBy }) => ({ turnId, replacedBy }))
    equal(listed, this.#model.list(threadId), `the turns of ${threadId}`)
  }

  async #claim(): Promise<void> {
    const turnId = this.#random.pick(this.#turnIds)
    const claimed = await resultOf(this.#given.log.claim(turnId, 'heir', LONG_MS))
    this.#checkLease(claimed, this.#model.claim(turnId), `claim ${turnId}`)
  }

  #checkLease(lease: Lease | string, expected: unknown, what: string): void {
    if (typeof lease === 'string') {
      equal(lease, expected, what)
      return
    }
    equal({ epoch: lease.epoch, next: lease.next }, expected, what)
    this.#leases.push(lease)
  }

  /** Returns one of the leases, mostly the newest. */
  #lease(): Lease | undefined {
    const { length } = this.#leases
    if (length === 0) return undefined
    return this.#random.oneIn(3) ? this.#leases[this.#random.below(length)] : this.#leases.at(-1)
  }

  async #renew(): Promise<void> {
    const lease = this.#lease()
    if (lease === undefined) return
    const { turnId, epoch } = lease
    const lapse = !this.#random.oneIn(4)
    const renewed = await resultOf(this.#given.log.renew(lease, lapse ? SHORT_MS : LONG_MS))
    equal(renewed, this.#model.renew(turnId, epoch, lapse), `renew ${turnId}, epoch ${epoch}`)
    if (lapse) await this.#given.under.elapse(SHORT_MS)
    const orphans = await this.#given.log.expired(100)
    const ours = orphans.filter((id) => this.#turnIds.includes(id)).toSorted()
    equal(ours, this.#model.expired(), 'the orphans')
  }

  async #append(): Promise<void> {
    const lease = this.#lease()
    if (lease === undefined) return
    const { turnId, epoch } = lease
    const name = this.#random.pick(NAMES)
    const { records, seal } = this.#toAppend(turnId, name)
    const appended = this.#given.append(lease, name, records, { seal })
    const result = await resultOf(appended.then(() => undefined))
    const seqs = records.map(({ seq }) => seq).join(',')
    const what = `append ${seqs} to ${name} of ${turnId}, epoch ${epoch}, seal ${seal}`
    equal(result, this.#model.append(turnId, epoch, name, { records, seal }), what)
  }

  /** Returns the next records, stored ones, both, or records too far ahead. */
  #toAppend(turnId: string, name: LogName): Added {
    const log = this.#model.turns.get(turnId)?.logs[name]
    const known = log?.records ?? []
    const back = this.#random.oneIn(3) ? this.#random.below(known.length + 1) : 0
    const ahead = this.#random.oneIn(8) ? 1 + this.#random.below(3) : 0
    const first = known.length + 1 - back + ahead
    const count = 1 + this.#random.below(6)
    const last = first + count - 1
    const seal = last > known.length && this.#random.oneIn(12)
    const records = Array.from({ length: count }, (_, index) => {
      const seq = first + index
      const data =
        known[seq - 1]?.data ?? this.#text(turnId, name, { seq, last: seal && seq === last })
      return { seq, data }
    })
    return { records, seal }
  }

  #text(turnId: string, name: LogName, { seq, last }: { seq: number; last: boolean }): string {
    if (name === 'events') return last ? responseDone(turnId, seq) : delta(turnId, seq)
    if (last) return turnComplete(turnId)
    return message(turnId, this.#random.pick(['a', 'b', 'c', 'd']), `text ${seq}`)
  }

  async #read(): Promise<void> {
    const turnId = this.#random.pick(this.#turnIds)
    const name = this.#random.pick(NAMES)
    const known = this.#model.turns.get(turnId)?.logs[name].records ?? []
    const at = this.#random.below(known.length + 2)
    const cursor = at === 0 ? START : (known[at - 1]?.offset ?? `99-${at}`)
    await this.#checkTail(turnId, name, cursor)
  }

  async #checkTail(turnId: string, name: LogName, cursor: string): Promise<void> {
    const expected = this.#model.tail(turnId, name, cursor)
    const tail = this.#random.pick(this.#places).tail(turnId, name, cursor)
    const sealed = this.#model.turns.get(turnId)?.logs[name].sealed ?? true
    // An open log has no end to wait for.
    const reading = sealed ? readAll(tail) : takeFrom(tail, expected.length)
    const seen = await resultOf(reading)
    const shown =
      typeof seen === 'string'
        ? seen
        : seen.map((each) => ('resync' in each ? each.resync : [each.offset, each.data]))
    equal(shown, expected, `${name} of ${turnId} after ${cursor}`)
  }

  async #cancel(): Promise<void> {
    const turnId = this.#random.pick(this.#turnIds)
    const reason = `reason ${this.#random.below(100)}`
    const accepted = await resultOf(this.#given.log.requestCancel(turnId, reason))
    equal(accepted, this.#model.requestCancel(turnId, reason), `a cancel of ${turnId}`)
    await this.#checkTurn(turnId)
  }

  async #addOnce(): Promise<void> {
    const turnId = this.#random.pick(this.#turnIds)
    const key = this.#random.pick(['one', 'two'])
    const value = `value ${this.#random.below(1000)}`
    const { keyedRecords } = this.#random.pick(this.#places)
    const result = await resultOf(keyedRecords.addOnce(turnId, key, value))
    equal(result, this.#model.addOnce(turnId, key, value), `${key} of ${turnId}`)
  }

  async #delete(): Promise<void> {
    if (!this.#random.oneIn(3)) return
    const turnId = this.#random.pick(this.#turnIds)
    const deleted = await this.#given.log.deleteTurn(turnId)
    equal(deleted, this.#model.turns.delete(turnId), `deleting ${turnId}`)
    if (deleted) this.#deleted.add(turnId)
    this.#leases = this.#leases.filter((lease) => lease.turnId !== turnId)
  }

  async #checkTurn(turnId: string): Promise<void> {
    const turn = await this.#given.log.getTurn(turnId)
    const { ordinal, epoch, cancelReason, status, sealed } = turn ?? {}
    const shown = turn && { ordinal, epoch, cancelReason, status, sealed }
    equal(shown, this.#model.turn(turnId), `the record of ${turnId}`)
  }

  async checkEverything(): Promise<void> {
    for (const turnId of this.#turnIds) {
      await this.#checkTurn(turnId)
      for (const name of LOG_NAMES) await this.#checkTail(turnId, name, START)
    }
  }
}

/** Returns the resolved value, or the code of the rejection. */
async function resultOf<T>(work: Promise<T>): Promise<T | string> {
  try {
    return await work
  } catch (error) {
    return codeOf(error)
  }
}
