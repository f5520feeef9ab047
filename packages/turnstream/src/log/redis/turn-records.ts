import type { Lease, TurnRecord } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { isRecord, parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import { type Outcome, turnRecord } from '../records.ts'
import { checkEpoch, corrupt, type HeadState, turnGone } from '../rules.ts'
import type { RedisClient } from './client.ts'
import type { RedisKeys } from './keys.ts'
import type { RedisStore } from './open.ts'
import { list, parseFields, parseState, text } from './replies.ts'
import { READ_META } from './scripts/turn.ts'

export interface LogMeta {
  readonly now: number
  readonly creation: string
  readonly state: HeadState
  readonly hasStream: boolean
  readonly fields: Readonly<Record<string, string>>
}

export interface TurnMeta {
  readonly runId: string
  readonly threadId: string
  readonly creation: string
  readonly processed: LogMeta
  readonly events: LogMeta
}

/** The store, for the log of one tenant. */
export interface TenantStore extends RedisStore {
  readonly keys: RedisKeys
  readonly records: TurnRecords
}

/** Reads turn records. One half is in the slot of the run, the other in the slot of the turn. */
export class TurnRecords {
  readonly #keys: RedisKeys
  readonly #client: RedisClient

  constructor(keys: RedisKeys, client: RedisClient) {
    this.#keys = keys
    this.#client = client
  }

  async get(turnId: string): Promise<TurnRecord | undefined> {
    const meta = await this.meta(turnId)
    return meta === undefined ? undefined : toTurnRecord(turnId, meta)
  }

  /** A turn with only one half is being created or deleted, and does not exist. */
  async meta(turnId: string): Promise<TurnMeta | undefined> {
    // Usually the run id is the turn id, and both halves are read at once.
    const [processed, guess] = await Promise.all([this.processed(turnId), this.events(turnId)])
    if (processed === undefined) return undefined
    const { runId, threadId } = processed.fields
    if (runId === undefined || threadId === undefined) throw corrupt(`turn ${turnId} is incomplete`)
    const events = runId === turnId ? guess : await this.events(runId)
    const { creation } = processed
    // If this turn is being deleted, the run may already belong to another.
    if (events?.creation !== creation) return undefined
    return { runId, threadId, creation, processed, events }
  }

  /** The same, or TURN_UNKNOWN. */
  async existing(turnId: string): Promise<TurnMeta> {
    const meta = await this.meta(turnId)
    if (meta === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
    return meta
  }

  /** The record of log B, or LEASE_LOST. */
  async leased(lease: Lease): Promise<LogMeta> {
    const seen = await this.processed(lease.turnId)
    if (seen?.creation !== lease.creation) throw turnGone(lease.turnId)
    checkEpoch(seen.state, lease)
    return seen
  }

  async response(turnId: string): Promise<string | undefined> {
    // As in `meta`: usually the run id is the turn id.
    const [meta, guess] = await Promise.all([this.meta(turnId), this.#responseOf(turnId)])
    if (meta === undefined || isExpired(meta)) return undefined
    return meta.runId === turnId ? guess : this.#responseOf(meta.runId)
  }

  async #responseOf(runId: string): Promise<string | undefined> {
    const { response } = this.#keys.run(runId)
    const found = await this.#client.command('GET', response)
    return typeof found === 'string' ? found : undefined
  }

  processed(turnId: string): Promise<LogMeta | undefined> {
    const { state, meta, processed } = this.#keys.turn(turnId)
    return this.#read([state, meta, processed])
  }

  events(runId: string): Promise<LogMeta | undefined> {
    const { state, meta, events } = this.#keys.run(runId)
    return this.#read([state, meta, events])
  }

  async #read(keys: readonly string[]): Promise<LogMeta | undefined> {
    const [now, state, hasStream, meta] = list(await this.#client.run(READ_META, keys, []))
    const fields = parseFields(meta)
    if (state === '' || fields['epochs'] === undefined) return undefined
    return {
      now: Number(now),
      creation: fields['creation'] ?? '',
      state: parseState(text(state)),
      hasStream: hasStream === 1,
      fields,
    }
  }
}

export function isSealed({ processed, events }: TurnMeta): boolean {
  return processed.state.sealed && events.state.sealed
}

function isExpired(meta: TurnMeta): boolean {
  return isSealed(meta) && !(meta.processed.hasStream && meta.events.hasStream)
}

export function checkNotExpired(turnId: string, meta: TurnMeta): void {
  if (isExpired(meta)) throw new TurnstreamError('TURN_EXPIRED', turnId)
}

function toTurnRecord(turnId: string, meta: TurnMeta): TurnRecord {
  const { runId, threadId, processed, events } = meta
  const { ordinal, owner = '', createdAt, cancel, request, replaces, contentMs } = processed.fields
  const { outcome, endedAt, responseBytes } = events.fields
  const ids = { turnId, runId, threadId, ordinal: Number(ordinal), owner }
  const facts = {
    ...ids,
    createdAt: Number(createdAt),
    outcome: outcome === undefined ? undefined : parseOutcome(outcome),
    endedAt: toNumber(endedAt),
    responseBytes: toNumber(responseBytes),
    cancelReason: cancel,
    request,
    replaces,
    contentMs: toNumber(contentMs),
  }
  const { epoch } = processed.state
  return turnRecord(facts, { epoch, sealed: isSealed(meta), expired: isExpired(meta) })
}

function toNumber(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text)
}

function parseOutcome(text: string): Outcome {
  const outcome = parseJsonSafe(text)
  if (!isRecord(outcome) || typeof outcome['status'] !== 'string') throw corrupt('invalid outcome')
  // Written by this package from a validated event.
  return outcome as unknown as Outcome
}
