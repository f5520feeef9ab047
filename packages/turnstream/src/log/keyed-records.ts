import type {
  AddResult,
  KeyedRecords,
  Lease,
  TurnLog,
} from '@turnstream/core/internal/log/turn-log'
import type { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { TurnAccess } from './local-log.ts'
import { checkId, hasLoneSurrogate, invalid } from './records.ts'

export const MAX_VALUES = 16
export const MAX_TURN_KEYS = 200

const MAX_VALUE_CHARS = 500
const MAX_TURN_VALUE_CHARS = 16_000
const MAX_KEYS_READ = 64

/** A value of a key of the tenant, and when it expires. */
export type ExpiringValue = readonly [until: number, value: string]

/** The keyed records of a turn, oldest first. */
export type TurnValues = readonly (readonly [key: string, value: string])[]

export const NO_VALUES: TurnValues = []

/** Throws RECORD_INVALID for a record of the tenant that no store accepts. */
export function checkTenantRecord(key: string, value: string, ttlMs: number): void {
  checkRecord(key, value, MAX_VALUE_CHARS)
  if (!Number.isSafeInteger(ttlMs) || ttlMs < 1) throw invalid(`ttlMs is ${ttlMs}`)
}

/** Throws RECORD_INVALID for a record of a turn that no store accepts. */
export function checkTurnRecord(key: string, value: string): void {
  checkRecord(key, value, MAX_TURN_VALUE_CHARS)
}

function checkRecord(key: string, value: string, maxChars: number): void {
  checkId('key', key)
  if (value.length <= maxChars && !hasLoneSurrogate(value)) return
  throw invalid(`a value must have at most ${maxChars} characters of valid Unicode`)
}

/** Throws RECORD_INVALID for keys that cannot be read together. */
export function checkKeys(keys: readonly string[]): void {
  for (const key of keys) checkId('key', key)
  if (keys.length <= MAX_KEYS_READ) return
  throw invalid(`${keys.length} keys; at most ${MAX_KEYS_READ} can be read at once`)
}

export function liveValues(values: readonly ExpiringValue[], now: number): ExpiringValue[] {
  return values.filter(([until]) => until > now)
}

export function lastExpiry(values: readonly ExpiringValue[]): number {
  return values.reduce((last, [until]) => Math.max(last, until), 0)
}

function findValue(values: TurnValues | undefined, key: string): string | undefined {
  return values?.find(([name]) => name === key)?.[1]
}

function withValue(values: TurnValues = NO_VALUES, key: string, value: string): TurnValues {
  if (values.length >= MAX_TURN_KEYS) throw tooManyKeys()
  return [...values, [key, value]]
}

export function tooManyKeys(): TurnstreamError {
  return invalid(`a turn has at most ${MAX_TURN_KEYS} keyed records`)
}

/** A century, for stores that never expire turns. */
const MAX_TTL_MS = 100 * 365 * 24 * 60 * 60 * 1000

/** The time to live of a record that should last as long as a turn. */
export function retainedMs({ retentionMs }: Pick<TurnLog, 'retentionMs'>): number {
  return Math.ceil(Math.min(retentionMs, MAX_TTL_MS))
}

/** Keyed records of one tenant, in stores that decide in this process. Those of a turn are in its record. */
export abstract class LocalKeyedRecords implements KeyedRecords {
  protected readonly turns: TurnAccess
  protected readonly now: () => number

  constructor(turns: TurnAccess, now: () => number) {
    this.turns = turns
    this.now = now
  }

  /** The values of a key of the tenant, as visible to readers. */
  protected abstract visible(key: string): readonly ExpiringValue[]
  protected abstract decided(key: string): readonly ExpiringValue[]
  protected abstract replace(key: string, values: readonly ExpiringValue[]): Promise<void>
  /** Resolves when what was decided about the key is stored. */
  protected abstract settled(key: string): Promise<void>

  protected checkOpen(): void {
    this.turns.checkOpen()
  }

  async add(key: string, value: string, ttlMs: number): Promise<void> {
    this.checkOpen()
    checkTenantRecord(key, value, ttlMs)
    const now = this.now()
    const added: ExpiringValue = [now + ttlMs, value]
    await this.replace(key, [...liveValues(this.decided(key), now), added].slice(-MAX_VALUES))
  }

  async read(keys: readonly string[]): Promise<(string | undefined)[]> {
    this.checkOpen()
    checkKeys(keys)
    const now = this.now()
    return keys.map((key) => liveValues(this.visible(key), now).at(-1)?.[1])
  }

  async consume(key: string): Promise<string | undefined> {
    this.checkOpen()
    checkKeys([key])
    const live = liveValues(this.decided(key), this.now())
    const newest = live.pop()
    // Without a value, another call may have consumed it, but its commit may still fail.
    await (newest === undefined ? this.settled(key) : this.replace(key, live))
    return newest?.[1]
  }

  async addOnce(turnId: string, key: string, value: string): Promise<AddResult> {
    checkTurnRecord(key, value)
    for (;;) {
      const turn = this.turns.existing(turnId)
      const { cancelReason, values } = turn.facts
      const before = findValue(turn.visibleFacts?.values, key)
      if (before !== undefined) return { isAdded: false, value: before }
      // Decided, but the commit may still fail.
      if (findValue(values, key) === undefined) {
        if (turn.state.logs.events.sealed || cancelReason !== undefined) return { isAdded: false }
        turn.decide({ values: withValue(values, key, value) })
        await this.turns.persist(turn)
        return { isAdded: true, value }
      }
      await this.turns.persist(turn)
    }
  }

  async find(turnId: string, key: string): Promise<string | undefined> {
    return findValue(this.turns.existing(turnId).visibleFacts?.values, key)
  }

  watch(lease: Lease, key: string, signal: AbortSignal): Promise<string> {
    return this.turns.waitFor(lease, signal, ({ values }) => findValue(values, key))
  }
}
