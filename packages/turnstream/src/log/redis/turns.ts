import type { Lease, NewTurn, Orphan } from '@turnstream/core/internal/log/turn-log'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { DEFAULT_TENANT, isTenant } from '@turnstream/core/internal/protocol/names'
import { checkEpoch, TurnExistsError, turnGone } from '../rules.ts'
import type { RedisClient } from './client.ts'
import type { RedisKeys, Retention } from './keys.ts'
import { list, text, texts, unlessDamaged } from './replies.ts'
import { DROP, DUE, INDEX } from './scripts/thread.ts'
import * as scripts from './scripts/turn.ts'
import { Threads } from './threads.ts'
import { checkNotExpired, isSealed, type TurnMeta, TurnRecords } from './turn-records.ts'

/**
 * Minimum time a turn being created stays in the index. After that others treat it as never created, and it must be
 * recreated.
 */
const CREATE_MS = 2000

/** A claim takes milliseconds; after this it is considered dead. */
const CLAIM_MS = 2000

/** How long the owner of a deleted turn may take to notice: many lease durations. */
const FENCE_MS = 60 * 60 * 1000

interface TurnStore {
  readonly client: RedisClient
  readonly leases: LeaseIndex
  readonly retention: Retention
}

type NewRun = Pick<Lease, 'creation' | 'epoch'>

/**
 * Creates, claims, ends and deletes turns. Record, run and thread are in three slots, so operations take several steps.
 * A process may die after any of them: the order lets the next caller detect this and continue.
 */
export class Turns {
  readonly records: TurnRecords
  readonly threads: Threads
  readonly #keys: RedisKeys
  readonly #client: RedisClient
  readonly #retention: Retention
  readonly #leases: LeaseIndex

  constructor(keys: RedisKeys, { client, leases, retention }: TurnStore) {
    this.records = new TurnRecords(keys, client)
    this.threads = new Threads({ keys, client, records: this.records, retention })
    this.#keys = keys
    this.#client = client
    this.#retention = retention
    this.#leases = leases
  }

  /** The thread first, because it blocks others; the turn's own slot last, because it makes the turn visible. */
  async create(turn: NewTurn, leaseMs: number): Promise<Lease> {
    const { turnId, threadId, runId = turnId, owner, contentMs } = turn
    await this.#checkNew(turnId, runId)
    const opened = await this.threads.openTurn(turn, leaseMs)
    const { ordinal } = opened
    const indexedUntil = opened.now + Math.max(leaseMs, CREATE_MS)
    // Before the turn exists: an index may name a missing turn, but must not omit an existing one.
    await this.#leases.put(this.#named(turnId), indexedUntil, leaseMs)
    let made: NewRun
    try {
      made = await this.#createRun(turnId, runId, leaseMs)
    } catch (error) {
      if (hasCode(error, 'TURN_EXISTS')) await this.threads.removeTurn(threadId, turnId)
      throw error
    }
    const { state, processed, meta } = this.#keys.turn(turnId)
    const fields = ['runId', runId, 'threadId', threadId, 'ordinal', ordinal, 'owner', owner]
    if (turn.request !== undefined) fields.push('request', turn.request)
    if (turn.replaces !== undefined) {
      fields.push('replaces', turn.replaces, 'replacesFrom', opened.replacesFrom)
    }
    if (contentMs !== undefined) fields.push('contentMs', String(contentMs))
    const { creation, epoch } = made
    const keepMs = this.#retention.openMs(leaseMs)
    const args = [crypto.randomUUID(), leaseMs, keepMs, indexedUntil, creation, epoch, ...fields]
    const until = text(await this.#client.run(scripts.CREATE_TURN, [state, processed, meta], args))
    if (until === '') return this.#refuse(turnId)
    if (until === 'late') return this.create(turn, leaseMs)
    // The thread may have been deleted meanwhile. A crash before this leaves an orphan: see `isOrphan`.
    if (!(await this.threads.confirmTurn(turn, opened))) {
      await this.remove(turnId, creation)
      return this.create(turn, leaseMs)
    }
    if (leaseMs < CREATE_MS) await this.#leases.put(this.#named(turnId), Number(until), leaseMs)
    const next = { events: 1, processed: 1 }
    const brief = this.#briefLease(contentMs)
    return { turnId, runId, creation, epoch, ...brief, until: Number(until), next }
  }

  async #checkNew(turnId: string, runId: string): Promise<void> {
    const [processed, run] = await Promise.all([
      this.records.processed(turnId),
      this.records.events(runId),
    ])
    if (processed !== undefined) await this.#refuse(turnId)
    const owner = run?.fields['turn']
    if (owner !== undefined && owner !== turnId) await this.#checkUnknown(owner)
  }

  async #createRun(turnId: string, runId: string, leaseMs: number): Promise<NewRun> {
    const { state, events, meta, fence } = this.#keys.run(runId)
    // Short, because each append to log B carries it: enough to distinguish a few creations of one id.
    const made = crypto.randomUUID().slice(0, 8)
    let takenFrom = ''
    for (;;) {
      const args = [turnId, leaseMs, this.#retention.openMs(leaseMs), takenFrom, made]
      const reply = await this.#client.run(scripts.CREATE_RUN, [state, events, meta, fence], args)
      const [owner = '', creation = '', epoch] = texts(reply)
      if (owner === '') return { creation, epoch: Number(epoch) }
      await this.#checkUnknown(owner)
      if (owner === takenFrom) {
        throw new TurnstreamError('TURN_EXISTS', `run ${runId} is being created for turn ${owner}`)
      }
      takenFrom = owner
    }
  }

  async #checkUnknown(turnId: string): Promise<void> {
    const record = await this.records.get(turnId)
    if (record !== undefined) throw new TurnExistsError(record)
  }

  async #refuse(turnId: string): Promise<never> {
    await this.#checkUnknown(turnId)
    throw new TurnstreamError('TURN_EXISTS', `${turnId} exists only in part`)
  }

  /**
   * Fences log A first, then log B; see the scripts. Log A must be unchanged since before the lease was seen to have
   * expired: then no other claim came in between.
   */
  async claim(turnId: string, owner: string, leaseMs: number): Promise<Lease> {
    const seen = await this.#claimable(turnId)
    const { runId, creation } = seen
    const run = this.#keys.run(runId)
    const turn = this.#keys.turn(turnId)
    const nonce = crypto.randomUUID()
    const keepMs = this.#retention.openMs(leaseMs)
    const ofRun = [run.state, run.events, run.chunks, run.meta, run.response]
    const fence = [seen.events.state.epoch, seen.events.fields['claim'] ?? '', nonce]
    const fenced = [...fence, CLAIM_MS, keepMs, creation]
    const [epoch, events] = texts(await this.#client.run(scripts.CLAIM_EVENTS, ofRun, fenced))
    if (epoch === undefined || events === undefined) throw this.#held(turnId)
    const ofTurn = [turn.state, turn.meta, turn.processed, turn.items, turn.values]
    const claimed = [epoch, nonce, owner, leaseMs, keepMs, creation]
    const [until, processed] = texts(
      await this.#client.run(scripts.CLAIM_PROCESSED, ofTurn, claimed),
    )
    if (until === undefined || processed === undefined) throw this.#held(turnId)
    const confirmed = await this.#client.run(scripts.CONFIRM_CLAIM, [run.meta], [nonce])
    if (confirmed !== 1) throw this.#held(turnId)
    await this.#leases.put(this.#named(turnId), Number(until), leaseMs)
    const next = { events: Number(events) + 1, processed: Number(processed) + 1 }
    const brief = this.#briefLease(seen.processed.fields['contentMs'])
    return { turnId, runId, creation, epoch: Number(epoch), ...brief, until: Number(until), next }
  }

  /** For the writers, whose seal starts the retention of short-lived content. */
  #briefLease(contentMs: number | string | undefined): Pick<Lease, 'contentMs'> {
    return contentMs === undefined ? {} : { contentMs: this.#retention.contentMs(contentMs) }
  }

  async #claimable(turnId: string): Promise<TurnMeta> {
    const known = await this.records.existing(turnId)
    // In this order: log A as it was before the lease expired.
    const events = await this.records.events(known.runId)
    const processed = await this.records.processed(turnId)
    if (events === undefined || processed === undefined) {
      throw new TurnstreamError('TURN_UNKNOWN', turnId)
    }
    const seen = { ...known, events, processed }
    if (isSealed(seen)) {
      checkNotExpired(turnId, seen)
      throw new TurnstreamError('LOG_SEALED', `both logs of turn ${turnId}`)
    }
    const leftMs = Number(processed.fields['until']) - processed.now
    if (leftMs > 0) {
      throw new TurnstreamError('LEASE_HELD', `turn ${turnId}, for another ${leftMs} ms`)
    }
    return seen
  }

  #held(turnId: string): TurnstreamError {
    return new TurnstreamError('LEASE_HELD', `another process is claiming turn ${turnId}`)
  }

  async renew(lease: Lease, leaseMs: number): Promise<void> {
    let reply = await this.#renew(lease, leaseMs, false)
    if (reply[0] === 'over') {
      // Log A is fenced first: a claim is visible there before log B.
      const events = await this.records.events(lease.runId)
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
      this.threads.keep(threadId, leaseMs),
    ])
  }

  async #renew(lease: Lease, leaseMs: number, isLate: boolean): Promise<string[]> {
    const { turnId, runId, creation, epoch } = lease
    const openMs = this.#retention.openMs(leaseMs)
    const turn = this.#keys.turn(turnId)
    const run = this.#keys.run(runId)
    const [reply] = await Promise.all([
      this.#client.run(
        scripts.RENEW,
        [turn.state, turn.meta, turn.processed, turn.items, turn.values],
        [epoch, leaseMs, openMs, creation, isLate ? 1 : ''],
      ),
      this.#client.run(scripts.KEEP_OPEN, [run.meta, run.state, run.events, run.chunks], [openMs]),
    ])
    return texts(reply)
  }

  /** As in the index of all tenants. */
  #named(turnId: string): Orphan {
    return { tenant: this.#keys.tenant, turnId }
  }

  /** Whether a turn with an expired lease in the index is an orphan; otherwise corrects the index. */
  async isOrphan(turn: IndexedTurn): Promise<boolean> {
    const { turnId } = turn
    const meta = await this.records.meta(turnId)
    if (meta === undefined) {
      // It was deleted or never created. If it is created later, it gets another index entry.
      await this.#leases.drop(turn)
      return false
    }
    if (isSealed(meta)) {
      await this.#settle(turnId, meta)
      return false
    }
    const until = Number(meta.processed.fields['until'])
    if (meta.processed.now >= until) {
      if (await this.threads.hasTurn(meta.threadId, turnId)) return true
      await this.remove(turnId, meta.creation)
      return false
    }
    await this.#leases.put(this.#named(turnId), until, until - meta.processed.now)
    return false
  }

  /** False when `events` is sealed. */
  async requestCancel(turnId: string, reason: string): Promise<boolean> {
    const seen = await this.records.existing(turnId)
    if (seen.events.state.sealed) {
      checkNotExpired(turnId, seen)
      return false
    }
    const { meta } = this.#keys.turn(turnId)
    if ((await this.#client.run(scripts.CANCEL, [meta], [reason])) === 1) return true
    throw new TurnstreamError('TURN_UNKNOWN', turnId)
  }

  async cancelReason(lease: Lease): Promise<string | undefined> {
    return (await this.records.leased(lease)).fields['cancel']
  }

  /** After a log was sealed: if both are, the turn has ended and leaves the index. */
  async settle(turnId: string): Promise<void> {
    const meta = await this.records.meta(turnId)
    if (meta !== undefined && isSealed(meta)) await this.#settle(turnId, meta)
  }

  async #settle(turnId: string, meta: TurnMeta): Promise<void> {
    const { recordMs } = this.#retention
    const logMs = this.#retention.contentMs(meta.processed.fields['contentMs'])
    const run = this.#keys.run(meta.runId)
    const turn = this.#keys.turn(turnId)
    const ofTurn = [turn.meta, turn.state, turn.processed, turn.items, turn.values]
    const keep = [logMs, recordMs]
    await Promise.all([
      this.#client.run(scripts.SETTLE, [run.meta, run.state, run.events, run.response], keep),
      this.#client.run(scripts.SETTLE, ofTurn, keep),
      this.threads.closeTurn(meta, turnId),
      this.#leases.remove(this.#named(turnId)),
    ])
  }

  /**
   * Removes a turn in any state. The run first: half a turn can be removed again. Its own slot last: until then it
   * cannot be recreated. With `only`, just the turn of that creation.
   */
  async remove(turnId: string, only?: string): Promise<boolean> {
    const seen = await unlessDamaged(this.records.processed(turnId), null)
    if (seen === undefined) return false
    if (seen === null) return this.#removeDamaged(turnId)
    const { creation } = seen
    if (creation !== (only ?? creation)) return false
    const { runId = turnId, threadId = '' } = seen.fields
    const run = this.#keys.run(runId)
    const turn = this.#keys.turn(turnId)
    const ofRun = [run.meta, run.state, run.events, run.chunks, run.response, run.fence]
    const removing = this.#client.run(scripts.REMOVE_EVENTS, ofRun, [creation, FENCE_MS])
    const removed = await unlessDamaged(removing, null)
    if (removed === null) return this.#removeDamaged(turnId)
    if (removed === 0) return false // recreated since
    await this.threads.removeTurn(threadId, turnId)
    await this.#leases.remove(this.#named(turnId))
    const ofTurn = [turn.meta, turn.state, turn.processed, turn.items, turn.values]
    await this.#client.run(scripts.REMOVE_PROCESSED, ofTurn, [creation])
    return true
  }

  /** Removes a turn whose record cannot be read, and its run if that is known to be its own. */
  async #removeDamaged(turnId: string): Promise<true> {
    const turn = this.#keys.turn(turnId)
    const [runId, threadId] = await this.#fields(turn.meta, 'runId', 'threadId')
    const run = this.#keys.run(runId ?? turnId)
    const [owner] = await this.#fields(run.meta, 'turn')
    if (owner === turnId || (owner === undefined && runId === turnId)) {
      await this.#client.command('DEL', run.meta, run.state, run.events, run.chunks, run.response)
    }
    if (threadId !== undefined) await this.threads.removeTurn(threadId, turnId)
    await this.#leases.remove(this.#named(turnId))
    const { meta, state, processed, items, values } = turn
    await this.#client.command('DEL', meta, state, processed, items, values)
    return true
  }

  async #fields(key: string, ...names: string[]): Promise<(string | undefined)[]> {
    const reply = await unlessDamaged(this.#client.command('HMGET', key, ...names), [])
    return list(reply).map((value) => (typeof value === 'string' ? value : undefined))
  }
}

interface IndexedTurn extends Orphan {
  readonly member: string
  readonly score: string
}

/**
 * Open turns of all tenants by lease expiry. Only an index: the turn record decides. Members are the id for `default`,
 * `<tenant> <id>` for other tenants: ids contain no space.
 */
export class LeaseIndex {
  readonly #key: string
  readonly #client: RedisClient
  readonly #retention: Retention

  constructor(key: string, client: RedisClient, retention: Retention) {
    this.#key = key
    this.#client = client
    this.#retention = retention
  }

  async put(turn: Orphan, until: number, leaseMs: number): Promise<void> {
    const keepMs = this.#retention.openMs(leaseMs)
    await this.#client.run(INDEX, [this.#key], [until, memberOf(turn), keepMs])
  }

  /** Turns with an expired lease, oldest first. */
  async due(skip: number, limit: number): Promise<IndexedTurn[]> {
    const reply = texts(await this.#client.run(DUE, [this.#key], [skip, limit]))
    const turns: IndexedTurn[] = []
    for (let at = 0; at < reply.length; at += 2) {
      turns.push(indexedTurn(reply[at] ?? '', reply[at + 1] ?? ''))
    }
    return turns
  }

  async remove(turn: Orphan): Promise<void> {
    await this.#client.command('ZREM', this.#key, memberOf(turn))
  }

  /** Removes a turn, unless it was added again since it was read. */
  async drop({ member, score }: IndexedTurn): Promise<void> {
    await this.#client.run(DROP, [this.#key], [member, score])
  }
}

/** Whether the member has the form that this package writes. */
function isMember(turn: IndexedTurn): boolean {
  return isTenant(turn.tenant) && memberOf(turn) === turn.member
}

function memberOf({ tenant, turnId }: Orphan): string {
  return tenant === DEFAULT_TENANT ? turnId : `${tenant} ${turnId}`
}

function indexedTurn(member: string, score: string): IndexedTurn {
  const end = member.indexOf(' ')
  if (end === -1) return { tenant: DEFAULT_TENANT, turnId: member, member, score }
  return { tenant: member.slice(0, end), turnId: member.slice(end + 1), member, score }
}

/** Members of the index read at once while skipping other tenants. */
const PAGE = 100

/**
 * Finds abandoned turns of one tenant or all, by the shared index: the cost does not depend on the number of tenants.
 * The index may be stale: each turn is checked, and wrong entries are corrected.
 */
export async function findOrphans(
  leases: LeaseIndex,
  turnsOf: (tenant: string) => Turns,
  limit: number,
  tenant?: string,
): Promise<Orphan[]> {
  const page = tenant === undefined ? limit : Math.max(limit, PAGE)
  const isOrphan = async (turn: IndexedTurn) => {
    if (isMember(turn)) return turnsOf(turn.tenant).isOrphan(turn)
    await leases.drop(turn)
    return false
  }
  const orphans: Orphan[] = []
  for (let skip = 0; orphans.length < limit; ) {
    const due = await leases.due(skip, page)
    const wanted = due.filter((turn) => tenant === undefined || turn.tenant === tenant)
    const verdicts = await Promise.all(wanted.map(isOrphan))
    const found = wanted.filter((_turn, at) => verdicts[at])
    for (const { tenant, turnId } of found) orphans.push({ tenant, turnId })
    if (due.length < page) break
    // Corrected entries are no longer in the index.
    skip += due.length - wanted.length + found.length
  }
  return orphans.slice(0, limit)
}
