import type { AddResult, KeyedRecords, Lease } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import {
  checkKeys,
  checkTenantRecord,
  checkTurnRecord,
  MAX_TURN_KEYS,
  MAX_VALUES,
  tooManyKeys,
} from '../keyed-records.ts'
import type { RedisKeys } from './keys.ts'
import type { RedisStore } from './open.ts'
import { texts } from './replies.ts'
import * as scripts from './scripts/keyed-record.ts'
import { checkNotExpired, type TurnRecords } from './turn-records.ts'

interface Store extends RedisStore {
  readonly keys: RedisKeys
  readonly turns: TurnRecords
}

/** The keyed records of one tenant. Those of a key are in one slot, those of a turn in the slot of its record. */
export class RedisKeyedRecords implements KeyedRecords {
  readonly #store: Store
  /** How long a call may be retried. */
  readonly #retriedMs: number

  constructor(store: Store) {
    this.#store = store
    // The last attempt starts within the limit and may arrive later.
    this.#retriedMs = 2 * store.unavailableAfterMs
  }

  async add(key: string, value: string, ttlMs: number): Promise<void> {
    const { keys, client, checkOpen } = this.#store
    checkOpen()
    checkTenantRecord(key, value, ttlMs)
    const { values, call } = keys.keyedRecord(key, crypto.randomUUID())
    await client.run(scripts.ADD, [values, call], [value, ttlMs, MAX_VALUES, this.#retriedMs])
  }

  /** Sent together: the client pipelines the calls to each node. */
  async read(keys: readonly string[]): Promise<(string | undefined)[]> {
    const { keys: redisKeys, client, checkOpen } = this.#store
    checkOpen()
    checkKeys(keys)
    return await Promise.all(
      keys.map(async (key) => {
        const { values } = redisKeys.keyedRecord(key, '')
        return toValue(await client.run(scripts.READ, [values], []))
      }),
    )
  }

  async consume(key: string): Promise<string | undefined> {
    const { keys, client, checkOpen } = this.#store
    checkOpen()
    checkKeys([key])
    const { values, call } = keys.keyedRecord(key, crypto.randomUUID())
    return toValue(await client.run(scripts.CONSUME, [values, call], [this.#retriedMs]))
  }

  async addOnce(turnId: string, key: string, value: string): Promise<AddResult> {
    const { client, turns, checkOpen } = this.#store
    checkOpen()
    checkTurnRecord(key, value)
    const turn = await turns.existing(turnId)
    if (turn.events.state.sealed) {
      checkNotExpired(turnId, turn)
      const before = await this.#valueOf(turnId, key)
      return { isAdded: false, ...(before !== undefined && { value: before }) }
    }
    const { meta, values, call } = this.#store.keys.keyedRecordOfTurn(turnId, crypto.randomUUID())
    const args = [turn.creation, key, value, MAX_TURN_KEYS, this.#retriedMs]
    const [result, stored] = texts(await client.run(scripts.ADD_ONCE, [meta, values, call], args))
    if (result === 'gone') throw new TurnstreamError('TURN_UNKNOWN', turnId)
    if (result === 'full') throw tooManyKeys()
    return { isAdded: result === 'added', ...(stored !== undefined && { value: stored }) }
  }

  async find(turnId: string, key: string): Promise<string | undefined> {
    const { turns, checkOpen } = this.#store
    checkOpen()
    const [turn, value] = await Promise.all([turns.existing(turnId), this.#valueOf(turnId, key)])
    checkNotExpired(turnId, turn)
    return value
  }

  async watch(lease: Lease, key: string, signal: AbortSignal): Promise<string> {
    const { keys, notifier, turns, checkOpen } = this.#store
    checkOpen()
    const { meta } = keys.turn(lease.turnId)
    return notifier.waitFor(meta, signal, async () => {
      const [, value] = await Promise.all([turns.leased(lease), this.#valueOf(lease.turnId, key)])
      return value
    })
  }

  async #valueOf(turnId: string, key: string): Promise<string | undefined> {
    const { keys, client } = this.#store
    return toValue(await client.command('HGET', keys.turn(turnId).values, key))
  }
}

function toValue(reply: unknown): string | undefined {
  return typeof reply === 'string' ? reply : undefined
}
