import type { KeyedRecords } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import {
  checkKeys,
  checkTenantRecord,
  checkTurnRecord,
  MAX_TURN_KEYS,
  MAX_VALUES,
  tooManyKeys,
} from '../keyed-records.ts'
import { texts } from './replies.ts'
import * as scripts from './scripts/keyed-record.ts'
import { checkNotExpired, type TenantStore } from './turn-records.ts'

/** The keyed records of one tenant. Those of a key are in one slot, those of a turn in the slot of its record. */
export function createKeyedRecords(store: TenantStore): KeyedRecords {
  const { keys, client, records, notifier, checkOpen } = store
  // How long a call may be retried: the last attempt starts within the limit and may arrive later.
  const retriedMs = 2 * store.unavailableAfterMs

  async function valueOf(turnId: string, key: string): Promise<string | undefined> {
    return toValue(await client.command('HGET', keys.turn(turnId).values, key))
  }

  return {
    async add(key, value, ttlMs) {
      checkOpen()
      checkTenantRecord(key, value, ttlMs)
      const { values, call } = keys.keyedRecord(key, crypto.randomUUID())
      await client.run(scripts.ADD, [values, call], [value, ttlMs, MAX_VALUES, retriedMs])
    },

    /** Sent together: the client pipelines the calls to each node. */
    async read(wanted) {
      checkOpen()
      checkKeys(wanted)
      return await Promise.all(
        wanted.map(async (key) => {
          const { values } = keys.keyedRecord(key, '')
          return toValue(await client.run(scripts.READ, [values], []))
        }),
      )
    },

    async consume(key) {
      checkOpen()
      checkKeys([key])
      const { values, call } = keys.keyedRecord(key, crypto.randomUUID())
      return toValue(await client.run(scripts.CONSUME, [values, call], [retriedMs]))
    },

    async addOnce(turnId, key, value) {
      checkOpen()
      checkTurnRecord(key, value)
      const turn = await records.existing(turnId)
      if (turn.events.state.sealed) {
        checkNotExpired(turnId, turn)
        const before = await valueOf(turnId, key)
        return { isAdded: false, ...(before !== undefined && { value: before }) }
      }
      const { meta, values, call } = keys.keyedRecordOfTurn(turnId, crypto.randomUUID())
      const args = [turn.creation, key, value, MAX_TURN_KEYS, retriedMs]
      const [result, stored] = texts(await client.run(scripts.ADD_ONCE, [meta, values, call], args))
      if (result === 'gone') throw new TurnstreamError('TURN_UNKNOWN', turnId)
      if (result === 'full') throw tooManyKeys()
      return { isAdded: result === 'added', ...(stored !== undefined && { value: stored }) }
    },

    async find(turnId, key) {
      checkOpen()
      const [turn, value] = await Promise.all([records.existing(turnId), valueOf(turnId, key)])
      checkNotExpired(turnId, turn)
      return value
    },

    async watch(lease, key, signal) {
      checkOpen()
      return notifier.waitFor(keys.turn(lease.turnId).meta, signal, async () => {
        const [, value] = await Promise.all([records.leased(lease), valueOf(lease.turnId, key)])
        return value
      })
    },
  }
}

function toValue(reply: unknown): string | undefined {
  return typeof reply === 'string' ? reply : undefined
}
