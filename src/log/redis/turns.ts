import { hasCode, TurnstreamError } from '../../protocol/errors.ts'
import { checkEpoch, TurnExistsError, turnGone } from '../rules.ts'
import type { Lease, NewTurn, Orphan } from '../turn-log.ts'
import type { Calls } from './calls.ts'
import type { RedisKeys } from './keys.ts'
import type { IndexedTurn, LeaseIndex } from './lease-index.ts'
import { text, texts } from './replies.ts'
import type { Retention } from './retention.ts'
import {
  CANCEL,
  CLAIM_EVENTS,
  CLAIM_PROCESSED,
  CONFIRM_CLAIM,
  CREATE_RUN,
  CREATE_TURN,
  KEEP_OPEN,
  RENEW,
  SETTLE,
} from './scripts/turn.ts'
import type { Threads } from './threads.ts'
import { isSealed, recordOf, type TurnMeta, type TurnRecords } from './turn-records.ts'
import type { TurnRemoval } from './turn-removal.ts'

interface TurnContext {
  readonly keys: RedisKeys
  readonly calls: Calls
  readonly leases: LeaseIndex
  readonly records: TurnRecords
  readonly threads: Threads
  readonly retention: Retention
  readonly removal: TurnRemoval
}

/**
 * So long, at least, a turn that is being made has its place in the index: then others take it for one
 * that never came into being, and it has to be made anew.
 */
const CREATE_MS = 2000

/** A claim takes some milliseconds; one that has not ended after this is taken for dead. */
const CLAIM_MS = 2000

/** What tells a turn from others of its id, and the epoch with which it begins. */
interface Made {
  readonly creation: string
  readonly epoch: number
}

/**
 * The life of a turn. Its record, its run and its thread are in three slots, so what concerns them all
 * takes several steps, and each can be the last that a process made: every order here is such that the
 * next one who comes can tell, and go on.
 */
export class Turns {
  readonly #keys: RedisKeys
  readonly #calls: Calls
  readonly #records: TurnRecords
  readonly #threads: Threads
  readonly #retention: Retention
  readonly #leases: LeaseIndex
  readonly #removal: TurnRemoval

  constructor({ keys, calls, leases, records, threads, retention, removal }: TurnContext) {
    this.#keys = keys
    this.#calls = calls
    this.#records = records
    this.#threads = threads
    this.#retention = retention
    this.#leases = leases
    this.#removal = removal
  }

  /** The thread first, because it keeps others out; the turn's own slot last, because that makes the turn. */
  async create(turn: NewTurn, leaseMs: number): Promise<Lease> {
    const { turnId, threadId, runId = turnId, owner, request } = turn
    await this.#checkNew(turnId, runId)
    const { ordinal, now } = await this.#threads.openTurn(threadId, turnId, leaseMs)
    const indexedUntil = now + Math.max(leaseMs, CREATE_MS)
    // Before there is a turn: an index may name what is not there, and must not miss what is.
    await this.#leases.put(this.#named(turnId), indexedUntil, leaseMs)
    let made: Made
    try {
      made = await this.#createRun(turnId, runId, leaseMs)
    } catch (error) {
      if (hasCode(error, 'TURN_EXISTS')) await this.#threads.closeTurn(threadId, turnId, true)
      throw error
    }
    const { state, processed, meta } = this.#keys.turn(turnId)
    const fields = ['runId', runId, 'threadId', threadId, 'ordinal', ordinal, 'owner', owner]
    if (request !== undefined) fields.push('request', request)
    const { creation, epoch } = made
    const keepMs = this.#retention.openMs(leaseMs)
    const args = [crypto.randomUUID(), leaseMs, keepMs, indexedUntil, creation, epoch, ...fields]
    const until = text(await this.#calls.run(CREATE_TURN, [state, processed, meta], args))
    if (until === '') return this.#refuse(turnId)
    if (until === 'late') return this.create(turn, leaseMs)
    // The thread may have been deleted meanwhile. Whoever dies before this leaves an orphan: see `isOrphan`.
    if (!(await this.#threads.confirmTurn(threadId, turnId, ordinal))) {
      await this.#removal.remove(turnId, creation)
      return this.create(turn, leaseMs)
    }
    if (leaseMs < CREATE_MS) await this.#leases.put(this.#named(turnId), Number(until), leaseMs)
    const next = { events: 1, processed: 1 }
    return { turnId, runId, creation, epoch, until: Number(until), next }
  }

  async #checkNew(turnId: string, runId: string): Promise<void> {
    const [processed, run] = await Promise.all([
      this.#records.processed(turnId),
      this.#records.events(runId),
    ])
    if (processed !== undefined) await this.#refuse(turnId)
    const owner = run?.fields['turn']
    if (owner !== undefined && owner !== turnId) {
      const record = await this.#records.get(owner)
      if (record !== undefined) throw new TurnExistsError(record)
    }
  }

  async #createRun(turnId: string, runId: string, leaseMs: number): Promise<Made> {
    const { state, events, meta, fence } = this.#keys.run(runId)
    // Short, because each append to log B has it: enough to tell a few creations of one id apart.
    const made = crypto.randomUUID().slice(0, 8)
    let takenFrom = ''
    for (;;) {
      const args = [turnId, leaseMs, this.#retention.openMs(leaseMs), takenFrom, made]
      const reply = await this.#calls.run(CREATE_RUN, [state, events, meta, fence], args)
      const [owner = '', creation = '', epoch] = texts(reply)
      if (owner === '') return { creation, epoch: Number(epoch) }
      const record = await this.#records.get(owner)
      if (record !== undefined) throw new TurnExistsError(record)
      if (owner === takenFrom) {
        throw new TurnstreamError('TURN_EXISTS', `run ${runId} is being made for turn ${owner}`)
      }
      takenFrom = owner
    }
  }

  async #refuse(turnId: string): Promise<never> {
    const record = await this.#records.get(turnId)
    if (record !== undefined) throw new TurnExistsError(record)
    throw new TurnstreamError('TURN_EXISTS', `${turnId}, of which only a part is there`)
  }

  /**
   * Log A is fenced first, then log B; see the scripts. What was seen of log A before the lease was seen
   * to have run out must still be so when A is fenced: then nobody has claimed the turn in between.
   */
  async claim(turnId: string, owner: string, leaseMs: number): Promise<Lease> {
    const seen = await this.#claimable(turnId)
    const { runId, creation } = seen
    const run = this.#keys.run(runId)
    const turn = this.#keys.turn(turnId)
    const nonce = crypto.randomUUID()
    const fence = [seen.events.state.epoch, seen.events.fields['claim'] ?? '', nonce]
    const [epoch, events] = texts(
      await this.#calls.run(
        CLAIM_EVENTS,
        [run.state, run.events, run.chunks, run.meta, run.response],
        [...fence, CLAIM_MS, this.#retention.openMs(leaseMs), creation],
      ),
    )
    if (epoch === undefined || events === undefined) throw this.#held(turnId)
    const [until, processed] = texts(
      await this.#calls.run(
        CLAIM_PROCESSED,
        [turn.state, turn.meta, turn.processed, turn.items],
        [epoch, nonce, owner, leaseMs, this.#retention.openMs(leaseMs), creation],
      ),
    )
    if (until === undefined || processed === undefined) throw this.#held(turnId)
    const confirmed = await this.#calls.run(CONFIRM_CLAIM, [run.meta], [nonce])
    if (confirmed !== 1) throw this.#held(turnId)
    await this.#leases.put(this.#named(turnId), Number(until), leaseMs)
    const next = { events: Number(events) + 1, processed: Number(processed) + 1 }
    return { turnId, runId, creation, epoch: Number(epoch), until: Number(until), next }
  }

  async #claimable(turnId: string): Promise<TurnMeta> {
    const known = await this.#records.meta(turnId)
    if (known === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
    // In this order: log A as it was before the lease had run out.
    const events = await this.#records.events(known.runId)
    const processed = await this.#records.processed(turnId)
    if (events === undefined || processed === undefined) {
      throw new TurnstreamError('TURN_UNKNOWN', turnId)
    }
    const seen = { ...known, events, processed }
    if (isSealed(seen)) {
      if (recordOf(turnId, seen).expired) throw new TurnstreamError('TURN_EXPIRED', turnId)
      throw new TurnstreamError('LOG_SEALED', `both logs of turn ${turnId}`)
    }
    const leftMs = Number(processed.fields['until']) - processed.now
    if (leftMs > 0) {
      throw new TurnstreamError('LEASE_HELD', `turn ${turnId}, for another ${leftMs} ms`)
    }
    return seen
  }

  #held(turnId: string): TurnstreamError {
    return new TurnstreamError('LEASE_HELD', `another claims turn ${turnId}`)
  }

  async renew(lease: Lease, leaseMs: number): Promise<void> {
    let reply = await this.#renew(lease, leaseMs, false)
    if (reply[0] === 'over') {
      // Log A is fenced first: whoever claims the turn shows there before log B says so.
      const events = await this.#records.events(lease.runId)
      if (events !== undefined) checkEpoch(events.state, lease)
      reply = await this.#renew(lease, leaseMs, true)
    }
    const { turnId } = lease
    const [answer, detail = '', threadId = ''] = reply
    if (answer === 'gone') throw turnGone(turnId)
    if (answer !== 'ok') {
      throw new TurnstreamError('LEASE_LOST', `turn ${turnId} is at ${detail}`)
    }
    lease.until = Number(detail)
    await Promise.all([
      this.#leases.put(this.#named(turnId), lease.until, leaseMs),
      this.#threads.keep(threadId, leaseMs),
    ])
  }

  async #renew(lease: Lease, leaseMs: number, isLate: boolean): Promise<string[]> {
    const { turnId, runId, creation, epoch } = lease
    const openMs = this.#retention.openMs(leaseMs)
    const turn = this.#keys.turn(turnId)
    const run = this.#keys.run(runId)
    const [reply] = await Promise.all([
      this.#calls.run(
        RENEW,
        [turn.state, turn.meta, turn.processed, turn.items],
        [epoch, leaseMs, openMs, creation, isLate ? 1 : ''],
      ),
      this.#calls.run(KEEP_OPEN, [run.meta, run.state, run.events, run.chunks], [openMs]),
    ])
    return texts(reply)
  }

  /** As the index of all tenants has it. */
  #named(turnId: string): Orphan {
    return { tenant: this.#keys.tenant, turnId }
  }

  /** Whether a turn whose lease the index takes for ended is an orphan; if not, the index is put right. */
  async isOrphan(turn: IndexedTurn): Promise<boolean> {
    const { turnId } = turn
    const meta = await this.#records.meta(turnId)
    if (meta === undefined) {
      // It is gone or was never made. If it is made after all, it has another place by then.
      await this.#leases.drop(turn)
      return false
    }
    if (isSealed(meta)) {
      await this.#settle(turnId, meta)
      return false
    }
    const until = Number(meta.processed.fields['until'])
    if (meta.processed.now >= until) {
      if (await this.#threads.hasTurn(meta.threadId, turnId)) return true
      await this.#removal.remove(turnId, meta.creation)
      return false
    }
    await this.#leases.put(this.#named(turnId), until, until - meta.processed.now)
    return false
  }

  /** False when `events` is sealed. */
  async requestCancel(turnId: string, reason: string): Promise<boolean> {
    const seen = await this.#records.meta(turnId)
    if (seen === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
    if (seen.events.state.sealed) {
      if (recordOf(turnId, seen).expired) throw new TurnstreamError('TURN_EXPIRED', turnId)
      return false
    }
    const { meta } = this.#keys.turn(turnId)
    if ((await this.#calls.run(CANCEL, [meta], [reason])) === 1) return true
    throw new TurnstreamError('TURN_UNKNOWN', turnId)
  }

  /** Why the owner shall stop, if anybody asked. */
  async cancelReason(lease: Lease): Promise<string | undefined> {
    const { turnId } = lease
    const seen = await this.#records.processed(turnId)
    if (seen?.creation !== lease.creation) {
      throw turnGone(turnId)
    }
    checkEpoch(seen.state, lease)
    return seen.fields['cancel']
  }

  /** After a log was sealed: if both are, the turn has ended, and others need not look after it. */
  async settle(turnId: string): Promise<void> {
    const meta = await this.#records.meta(turnId)
    if (meta !== undefined && isSealed(meta)) await this.#settle(turnId, meta)
  }

  async #settle(turnId: string, meta: TurnMeta): Promise<void> {
    const { logMs, recordMs } = this.#retention
    const run = this.#keys.run(meta.runId)
    const turn = this.#keys.turn(turnId)
    const keep = [logMs, recordMs]
    await Promise.all([
      this.#calls.run(SETTLE, [run.meta, run.state, run.events, run.response], keep),
      this.#calls.run(SETTLE, [turn.meta, turn.state, turn.processed, turn.items], keep),
      this.#threads.closeTurn(meta.threadId, turnId),
      this.#leases.remove(this.#named(turnId)),
    ])
  }
}
