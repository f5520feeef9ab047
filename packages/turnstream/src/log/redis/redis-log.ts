import type { StopSignal } from '@turnstream/core/internal/async/on-abort'
import type * as log from '@turnstream/core/internal/log/turn-log'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { checkTurn } from '../records.ts'
import { checkEpoch, TurnExistsError, turnGone } from '../rules.ts'
import { type LogSource, tailLog } from '../tail.ts'
import { Tenants } from '../tenants.ts'
import { createKeyedRecords } from './keyed-records.ts'
import { RedisKeys, turnKeys } from './keys.ts'
import { findOrphans, type IndexedTurn } from './leases.ts'
import type { RedisStore } from './open.ts'
import { list, storeError, text, texts, unlessDamaged } from './replies.ts'
import * as scripts from './scripts/turn.ts'
import { ThreadLog } from './threads.ts'
import { checkNotExpired, isSealed, type TurnMeta, TurnRecords } from './turn-records.ts'
import { openWriter, type WriterStore } from './writer.ts'

/** How long a turn being created stays in the index. After that it counts as never created. */
const CREATE_MS = 2000

/** A claim takes milliseconds; after this it is considered dead. */
const CLAIM_MS = 2000

/** How long the owner of a deleted turn may take to notice: many lease durations. */
const FENCE_MS = 60 * 60 * 1000

type NewRun = Pick<log.Lease, 'creation' | 'epoch'>

/** Record, run and thread are in three slots. A process may die between two steps: the next caller continues. */
export class RedisLog extends ThreadLog implements log.TurnLog {
  readonly keyedRecords: log.KeyedRecords
  readonly #tenants: Tenants<RedisLog>
  readonly #writerStore: WriterStore

  constructor(store: RedisStore, tenant: string, tenants?: Tenants<RedisLog>) {
    const keys = new RedisKeys(store.prefix, tenant)
    super({ ...store, keys, records: new TurnRecords(keys, store.client) })
    this.#tenants =
      tenants ?? new Tenants<RedisLog>(this, (name, all) => new RedisLog(store, name, all))
    this.keyedRecords = createKeyedRecords(this.store)
    this.#writerStore = { ...this.store, settle: (turnId) => this.#settleIfSealed(turnId) }
  }

  get retentionMs(): number {
    return this.store.retention.logMs
  }

  ofTenant(tenant: string): log.TurnLog {
    this.store.checkOpen()
    return this.#tenants.of(tenant)
  }

  open<Name extends log.LogName>(
    lease: log.Lease,
    name: Name,
    options?: log.WriterOptions<log.NewRecord<Name>>,
  ): log.LogWriter<log.NewRecord<Name>> {
    return openWriter(lease, name, this.#writerStore, options)
  }

  tail<Name extends log.LogName>(turnId: string, name: Name, after: string, signal: StopSignal) {
    const open = async () => {
      this.store.checkOpen()
      const source: LogSource<log.LogRecord> = await (name === 'events'
        ? this.#openEvents(turnId)
        : this.store.readers.openProcessed(turnId, this.keys.turn(turnId)))
      return source as LogSource<log.LogRecord<Name>>
    }
    return tailLog(name, open, after, signal)
  }

  async #openEvents(turnId: string): Promise<LogSource<log.EventRecord>> {
    const meta = await this.records.existing(turnId)
    checkNotExpired(turnId, meta)
    return this.store.readers.openEvents(turnId, this.keys.run(meta.runId))
  }

  async snapshot(turnId: string): Promise<log.TurnSnapshot> {
    this.store.checkOpen()
    return this.store.readers.snapshot(turnId, this.keys.turn(turnId))
  }

  async getResponse(turnId: string): Promise<string | undefined> {
    this.store.checkOpen()
    return this.records.response(turnId)
  }

  async expired(limit: number): Promise<string[]> {
    const orphans = await this.orphans(limit, this.keys.tenant)
    return orphans.map(({ turnId }) => turnId)
  }

  orphans(limit: number, tenant?: string): Promise<log.Orphan[]> {
    return findOrphans(this.store.leases, (name) => this.#tenants.of(name), limit, tenant)
  }

  async cancelled(lease: log.Lease, signal: AbortSignal): Promise<string> {
    this.store.checkOpen()
    const { meta } = this.keys.turn(lease.turnId)
    const find = async () => (await this.records.leased(lease)).fields['cancel']
    return this.store.notifier.waitFor(meta, signal, find)
  }

  getTurn(turnId: string): Promise<log.TurnRecord | undefined> {
    return this.records.get(turnId)
  }

  async getTurnOfRun(runId: string): Promise<log.TurnRecord | undefined> {
    const run = await this.records.events(runId)
    const turnId = run?.fields['turn']
    return turnId === undefined ? undefined : this.records.get(turnId)
  }

  override deleteTurn(turnId: string): Promise<boolean> {
    return this.#remove(turnId)
  }

  /** Memory used on all masters, including other data. */
  async storedBytes(): Promise<number> {
    const { connection, checkOpen } = this.store
    checkOpen()
    const infos = await connection.sendToAll(['INFO', 'memory']).catch((error: unknown) => {
      throw storeError(error)
    })
    const bytes = infos.map((info) => /used_memory_dataset:(\d+)/.exec(String(info))?.[1] ?? 0)
    return bytes.reduce((sum: number, each) => sum + Number(each), 0)
  }

  close(): Promise<void> {
    return this.store.close()
  }

  /** The thread first, because it blocks others; the turn's own slot last, because it makes the turn visible. */
  async create(turn: log.NewTurn, leaseMs: number): Promise<log.Lease> {
    this.client.checkOpen()
    checkTurn(turn)
    const { turnId, threadId, runId = turnId, owner, contentMs } = turn
    await this.#checkNew(turnId, runId)
    const opened = await this.openTurn(turn, leaseMs)
    const { ordinal } = opened
    const indexedUntil = opened.now + Math.max(leaseMs, CREATE_MS)
    // Before the turn exists: an index may name a missing turn, but must not omit an existing one.
    await this.store.leases.put(this.#named(turnId), indexedUntil, leaseMs)
    let made: NewRun
    try {
      made = await this.#createRun(turnId, runId, leaseMs)
    } catch (error) {
      if (hasCode(error, 'TURN_EXISTS')) await this.removeFromThread(threadId, turnId)
      throw error
    }
    const { state, processed, meta } = this.keys.turn(turnId)
    const fields = ['runId', runId, 'threadId', threadId, 'ordinal', ordinal, 'owner', owner]
    if (turn.request !== undefined) fields.push('request', turn.request)
    if (turn.replaces !== undefined) {
      fields.push('replaces', turn.replaces, 'replacesFrom', opened.replacesFrom)
    }
    if (contentMs !== undefined) fields.push('contentMs', String(contentMs))
    const { creation, epoch } = made
    const keepMs = this.store.retention.openMs(leaseMs)
    const args = [crypto.randomUUID(), leaseMs, keepMs, indexedUntil, creation, epoch, ...fields]
    const until = text(await this.client.run(scripts.CREATE_TURN, [state, processed, meta], args))
    if (until === '') return this.#refuse(turnId)
    if (until === 'late') return this.create(turn, leaseMs)
    // The thread may have been deleted meanwhile. A crash before this leaves an orphan: see `isOrphan`.
    if (!(await this.confirmTurn(turn, opened))) {
      await this.#remove(turnId, creation)
      return this.create(turn, leaseMs)
    }
    if (leaseMs < CREATE_MS)
      await this.store.leases.put(this.#named(turnId), Number(until), leaseMs)
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
    const { state, events, meta, fence } = this.keys.run(runId)
    // Short, because each append to log B carries it: enough to distinguish a few creations of one id.
    const made = crypto.randomUUID().slice(0, 8)
    let takenFrom = ''
    for (;;) {
      const args = [turnId, leaseMs, this.store.retention.openMs(leaseMs), takenFrom, made]
      const reply = await this.client.run(scripts.CREATE_RUN, [state, events, meta, fence], args)
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

  /** Fences log A first, if it is unchanged since before the lease expired: then no other claim came in between. */
  async claim(turnId: string, owner: string, leaseMs: number): Promise<log.Lease> {
    const seen = await this.#claimable(turnId)
    const { runId, creation } = seen
    const run = this.keys.run(runId)
    const turn = this.keys.turn(turnId)
    const nonce = crypto.randomUUID()
    const keepMs = this.store.retention.openMs(leaseMs)
    const ofRun = [run.state, run.events, run.chunks, run.meta, run.response]
    const fence = [seen.events.state.epoch, seen.events.fields['claim'] ?? '', nonce]
    const fenced = [...fence, CLAIM_MS, keepMs, creation]
    const [epoch, events] = texts(await this.client.run(scripts.CLAIM_EVENTS, ofRun, fenced))
    if (epoch === undefined || events === undefined) throw this.#held(turnId)
    const claimed = [epoch, nonce, owner, leaseMs, keepMs, creation]
    const [until, processed] = texts(
      await this.client.run(scripts.CLAIM_PROCESSED, turnKeys(turn), claimed),
    )
    if (until === undefined || processed === undefined) throw this.#held(turnId)
    const confirmed = await this.client.run(scripts.CONFIRM_CLAIM, [run.meta], [nonce])
    if (confirmed !== 1) throw this.#held(turnId)
    await this.store.leases.put(this.#named(turnId), Number(until), leaseMs)
    const next = { events: Number(events) + 1, processed: Number(processed) + 1 }
    const brief = this.#briefLease(seen.processed.fields['contentMs'])
    return { turnId, runId, creation, epoch: Number(epoch), ...brief, until: Number(until), next }
  }

  /** For the writers, whose seal starts the retention of short-lived content. */
  #briefLease(contentMs: number | string | undefined): Pick<log.Lease, 'contentMs'> {
    return contentMs === undefined ? {} : { contentMs: this.store.retention.contentMs(contentMs) }
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

  async renew(lease: log.Lease, leaseMs: number): Promise<void> {
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
      this.store.leases.put(this.#named(turnId), lease.until, leaseMs),
      this.keepThread(threadId, leaseMs),
    ])
  }

  async #renew(lease: log.Lease, leaseMs: number, isLate: boolean): Promise<string[]> {
    const { turnId, runId, creation, epoch } = lease
    const openMs = this.store.retention.openMs(leaseMs)
    const turn = this.keys.turn(turnId)
    const run = this.keys.run(runId)
    const args = [epoch, leaseMs, openMs, creation, isLate ? 1 : '']
    const [reply] = await Promise.all([
      this.client.run(scripts.RENEW, turnKeys(turn), args),
      this.client.run(scripts.KEEP_OPEN, [run.meta, run.state, run.events, run.chunks], [openMs]),
    ])
    return texts(reply)
  }

  /** As in the index of all tenants. */
  #named(turnId: string): log.Orphan {
    return { tenant: this.keys.tenant, turnId }
  }

  /** Whether a turn with an expired lease in the index is an orphan; otherwise corrects the index. */
  async isOrphan(turn: IndexedTurn): Promise<boolean> {
    const { turnId } = turn
    const meta = await this.records.meta(turnId)
    if (meta === undefined) {
      // It was deleted or never created. If it is created later, it gets another index entry.
      await this.store.leases.drop(turn)
      return false
    }
    if (isSealed(meta)) {
      await this.#settle(turnId, meta)
      return false
    }
    const until = Number(meta.processed.fields['until'])
    if (meta.processed.now >= until) {
      if (await this.hasTurn(meta.threadId, turnId)) return true
      await this.#remove(turnId, meta.creation)
      return false
    }
    await this.store.leases.put(this.#named(turnId), until, until - meta.processed.now)
    return false
  }

  /** False when `events` is sealed. */
  async requestCancel(turnId: string, reason: string): Promise<boolean> {
    const seen = await this.records.existing(turnId)
    if (seen.events.state.sealed) {
      checkNotExpired(turnId, seen)
      return false
    }
    const { meta } = this.keys.turn(turnId)
    if ((await this.client.run(scripts.CANCEL, [meta], [reason])) === 1) return true
    throw new TurnstreamError('TURN_UNKNOWN', turnId)
  }

  /** After a log was sealed: if both are, the turn has ended and leaves the index. */
  async #settleIfSealed(turnId: string): Promise<void> {
    const meta = await this.records.meta(turnId)
    if (meta !== undefined && isSealed(meta)) await this.#settle(turnId, meta)
  }

  async #settle(turnId: string, meta: TurnMeta): Promise<void> {
    const { recordMs } = this.store.retention
    const logMs = this.store.retention.contentMs(meta.processed.fields['contentMs'])
    const run = this.keys.run(meta.runId)
    const turn = this.keys.turn(turnId)
    const keep = [logMs, recordMs]
    await Promise.all([
      this.client.run(scripts.SETTLE, [run.meta, run.state, run.events, run.response], keep),
      this.client.run(scripts.SETTLE, turnKeys(turn), keep),
      this.closeTurn(meta, turnId),
      this.store.leases.remove(this.#named(turnId)),
    ])
  }

  /** Removes a turn, or only that creation. The run first: half a turn can be removed again, but not recreated. */
  async #remove(turnId: string, only?: string): Promise<boolean> {
    const seen = await unlessDamaged(this.records.processed(turnId), null)
    if (seen === undefined) return false
    if (seen === null) return this.#removeDamaged(turnId)
    const { creation } = seen
    if (creation !== (only ?? creation)) return false
    const { runId = turnId, threadId = '' } = seen.fields
    const run = this.keys.run(runId)
    const turn = this.keys.turn(turnId)
    const ofRun = [run.meta, run.state, run.events, run.chunks, run.response, run.fence]
    const removing = this.client.run(scripts.REMOVE_EVENTS, ofRun, [creation, FENCE_MS])
    const removed = await unlessDamaged(removing, null)
    if (removed === null) return this.#removeDamaged(turnId)
    if (removed === 0) return false // recreated since
    await this.removeFromThread(threadId, turnId)
    await this.store.leases.remove(this.#named(turnId))
    await this.client.run(scripts.REMOVE_PROCESSED, turnKeys(turn), [creation])
    return true
  }

  /** Removes a turn whose record cannot be read, and its run if that is known to be its own. */
  async #removeDamaged(turnId: string): Promise<true> {
    const turn = this.keys.turn(turnId)
    const [runId, threadId] = await this.#fields(turn.meta, 'runId', 'threadId')
    const run = this.keys.run(runId ?? turnId)
    const [owner] = await this.#fields(run.meta, 'turn')
    if (owner === turnId || (owner === undefined && runId === turnId)) {
      await this.client.command('DEL', run.meta, run.state, run.events, run.chunks, run.response)
    }
    if (threadId !== undefined) await this.removeFromThread(threadId, turnId)
    await this.store.leases.remove(this.#named(turnId))
    const [meta, ...others] = turnKeys(turn)
    await this.client.command('DEL', meta, ...others)
    return true
  }

  async #fields(key: string, ...names: string[]): Promise<(string | undefined)[]> {
    const reply = await unlessDamaged(this.client.command('HMGET', key, ...names), [])
    return list(reply).map((value) => (typeof value === 'string' ? value : undefined))
  }
}
