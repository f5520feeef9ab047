import { isRecord, parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import { DEFAULT_TENANT } from '@turnstream/core/internal/protocol/names'
import type { Key } from 'lmdb'
import type { TurnValues } from '../keyed-records.ts'
import type { ThreadPlace } from '../paging.ts'
import type { TurnFacts } from '../records.ts'
import { corrupt, type WriteState } from '../rules.ts'

export interface StoredFacts extends TurnFacts {
  /** Identifies the turn in the keys of its logs: short and never reused. */
  readonly number: number
  /** When the content expires, if before the retention. By the steady time of the store. */
  readonly contentUntil?: number | undefined
  readonly expired: boolean
}

export interface StoredTurn extends StoredFacts {
  /** For an open log the head is in its records; this one may be older. */
  readonly state: WriteState
}

/** Missing fields of a new turn: setting all of them gives all turns the same hidden class. */
export const NOT_ENDED = {
  outcome: undefined,
  endedAt: undefined,
  responseBytes: undefined,
  cancelReason: undefined,
  values: undefined,
  contentUntil: undefined,
  expired: false,
}

/** The place of an ended turn's logs in the table `ended`; `key` is the turn's key. */
export function expiryKey({ endedAt = 0, contentUntil }: StoredFacts, key: string): ExpiryKey {
  return contentUntil === undefined ? ['logs', endedAt, key] : ['content', contentUntil, key]
}

/** `content` expires at that time; `logs` and `record` after that delay. */
export type ExpiryKey = [kind: 'content' | 'logs' | 'record', time: number, key: string]

export interface TurnPlace {
  readonly turnId: string
  readonly replacedBy?: string | undefined
}

/** `<turnId>`, or `<turnId> <replacedBy>`: ids contain no space. */
export function formatPlace({ turnId, replacedBy }: TurnPlace): string {
  return replacedBy === undefined ? turnId : `${turnId} ${replacedBy}`
}

export function parsePlace(text: string): TurnPlace {
  const [turnId = '', replacedBy] = text.split(' ')
  return { turnId, replacedBy }
}

/** In the table `store`: [DAMAGED, key of the turn] to nothing. */
export const DAMAGED = 'damaged'

export function parseTurn(text: string): StoredTurn {
  const turn = parseJsonSafe(text)
  if (isRecord(turn) && typeof turn['number'] === 'number' && isRecord(turn['state'])) {
    const { approvals } = turn
    return (approvals === undefined
      ? turn
      : { ...turn, approvals: undefined, values: valuesOf(approvals) }) as unknown as StoredTurn
  }
  throw corrupt('a stored turn is malformed')
}

/** Of a turn that an earlier version stored: its keyed records were answers to approvals. */
function valuesOf(approvals: unknown): TurnValues {
  const answers = Array.isArray(approvals) ? (approvals as readonly [string, unknown][]) : []
  return answers.map(([id, answer]) => [id, JSON.stringify(answer)])
}

/** More than an id has: at most 200 characters of one or two units. */
const TOO_LONG = 401

/**
 * Keys for the ids of a tenant: unchanged for `default`, behind its name and a space for others. Stored ids contain no
 * space; requested ones that do are looked up behind the name `default`, where nothing is stored. (An array would not
 * work: lmdb joins its parts with an unescaped NUL.)
 */
export class TenantKeys {
  readonly tenant: string
  readonly #isDefault: boolean

  constructor(tenant: string) {
    this.tenant = tenant
    this.#isDefault = tenant === DEFAULT_TENANT
  }

  of(id: string): string {
    const fitting = fit(id)
    if (this.#isDefault && !fitting.includes(' ')) return fitting
    return `${this.tenant} ${fitting}`
  }

  /** Position of a thread among the tenant's threads, by last change. */
  recency({ updatedAt, threadId }: ThreadPlace): Key {
    return [...this.#recencyOf(updatedAt), fit(threadId)]
  }

  /** All threads of the tenant, newest first; from the position `from`, exclusive, if given. */
  newestFirst(from: ThreadPlace | undefined) {
    const start = from === undefined ? this.#recencyOf(Infinity) : this.recency(from)
    return { start, end: this.#recencyOf(0), exclusiveStart: true, reverse: true }
  }

  /** Numbers sort before text, so the threads of `default` are also contiguous. */
  #recencyOf(time: number): (string | number)[] {
    return this.#isDefault ? [time] : [this.tenant, time]
  }
}

/** Truncates what is too long for an id or a key: the prefix is not an id either. */
function fit(id: string): string {
  return id.length < TOO_LONG ? id : id.slice(0, TOO_LONG)
}
