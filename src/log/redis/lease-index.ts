import { DEFAULT_TENANT, isTenant } from '../../protocol/tenant.ts'
import type { Orphan } from '../turn-log.ts'
import type { Calls } from './calls.ts'
import { texts } from './replies.ts'
import type { Retention } from './retention.ts'
import { DROP, DUE, INDEX } from './scripts/thread.ts'

export interface IndexedTurn extends Orphan {
  readonly member: string
  /** When its lease ends, as far as the index knows. */
  readonly score: string
}

/**
 * The open turns of all tenants by the end of their lease. It is only an index: what the turn itself says
 * decides. A turn of `default` is a member by its id, one of another tenant by `<tenant> <id>`: no id has a
 * space.
 */
export class LeaseIndex {
  readonly #key: string
  readonly #calls: Calls
  readonly #retention: Retention

  constructor(key: string, calls: Calls, retention: Retention) {
    this.#key = key
    this.#calls = calls
    this.#retention = retention
  }

  async put(turn: Orphan, until: number, leaseMs: number): Promise<void> {
    const keepMs = this.#retention.openMs(leaseMs)
    await this.#calls.run(INDEX, [this.#key], [until, memberOf(turn), keepMs])
  }

  /** Turns whose lease has ended, oldest first. */
  async due(skip: number, limit: number): Promise<IndexedTurn[]> {
    const reply = texts(await this.#calls.run(DUE, [this.#key], [skip, limit]))
    const turns: IndexedTurn[] = []
    for (let at = 0; at < reply.length; at += 2) {
      turns.push(indexedTurn(reply[at] ?? '', reply[at + 1] ?? ''))
    }
    return turns
  }

  async remove(turn: Orphan): Promise<void> {
    await this.#calls.command(this.#key, 'ZREM', this.#key, memberOf(turn))
  }

  /** Removes a turn, unless it was put in anew since it was seen. */
  async drop({ member, score }: IndexedTurn): Promise<void> {
    await this.#calls.run(DROP, [this.#key], [member, score])
  }
}

/** Whether it is as this package writes it. */
export function isMember(turn: IndexedTurn): boolean {
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
