import type { Key } from 'lmdb'
import { TurnstreamError } from '../../protocol/errors.ts'
import { isRecord, parseJsonSafe } from '../../protocol/json.ts'
import { DEFAULT_TENANT } from '../../protocol/tenant.ts'
import type { ThreadPlace } from '../paging.ts'
import type { TurnFacts } from '../records.ts'
import type { WriteState } from '../rules.ts'

export interface StoredFacts extends TurnFacts {
  /** Stands for the turn in the keys of its logs: short, and never given to another. */
  readonly number: number
  readonly expired: boolean
}

/** A turn as it is stored under its id. */
export interface StoredTurn extends StoredFacts {
  /** Of an open log the head is in its records, and that in here may be older. */
  readonly state: WriteState
}

/** What a new turn has not: with all fields from the start, all turns have the same shape for the engine. */
export const NOT_ENDED = {
  outcome: undefined,
  endedAt: undefined,
  responseBytes: undefined,
  cancelReason: undefined,
  expired: false,
}

/** In the table `store`: [DAMAGED, key of the turn] to nothing. */
export const DAMAGED = 'damaged'

export function parseTurn(text: string): StoredTurn {
  const turn = parseJsonSafe(text)
  if (isRecord(turn) && typeof turn['number'] === 'number' && isRecord(turn['state'])) {
    return turn as unknown as StoredTurn
  }
  throw new TurnstreamError('STORE_CORRUPT', 'a stored turn cannot be read')
}

/** More than an id has: 200 characters at most, each of them one or two units. */
const TOO_LONG = 401

/**
 * How the ids of a tenant stand in keys: those of `default` as they are, those of another behind its name and
 * a space. No id that is stored has a space, but whoever asks may name what is no id: so one with a space is
 * looked for behind the name of `default`, where nothing is ever stored. Hence no text, whatever is in it,
 * names the same key for two tenants. (An array of both would not do: lmdb joins its parts with a NUL, and
 * writes one in a long text as it is.)
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

  /** The place of a thread among those of the tenant, by the time of its last change. */
  recency({ updatedAt, threadId }: ThreadPlace): Key {
    return [...this.#recencyOf(updatedAt), fit(threadId)]
  }

  /** All threads of the tenant, the newest first; `from` a place, without it, if there is one. */
  newestFirst(from: ThreadPlace | undefined) {
    const start = from === undefined ? this.#recencyOf(Infinity) : this.recency(from)
    return { start, end: this.#recencyOf(0), exclusiveStart: true, reverse: true }
  }

  /** A number comes before every text, so that the threads of `default` are together, too. */
  #recencyOf(time: number): (string | number)[] {
    return this.#isDefault ? [time] : [this.tenant, time]
  }
}

/** What is too long for an id may be too long for a key: the beginning of it is no id either. */
function fit(id: string): string {
  return id.length < TOO_LONG ? id : id.slice(0, TOO_LONG)
}

/** Whose id a stored key holds. */
export function parseKey(key: string): { tenant: string; id: string } {
  const end = key.indexOf(' ')
  if (end === -1) return { tenant: DEFAULT_TENANT, id: key }
  return { tenant: key.slice(0, end), id: key.slice(end + 1) }
}
