import type { Orphan } from '../turn-log.ts'
import { type IndexedTurn, isMember, type LeaseIndex } from './lease-index.ts'

interface Judge {
  isOrphan(turn: IndexedTurn): Promise<boolean>
}

/** So many members of the index are read at once where those of other tenants are passed over. */
const PAGE = 100

/**
 * Finds the turns that nobody writes to any more, by the one index of all tenants: what they cost to look
 * for does not depend on how many tenants there are. The index may be behind: what it names is looked at,
 * and what is wrong in it is put right.
 */
export class Orphans {
  readonly #leases: LeaseIndex
  readonly #turnsOf: (tenant: string) => Judge

  constructor(leases: LeaseIndex, turnsOf: (tenant: string) => Judge) {
    this.#leases = leases
    this.#turnsOf = turnsOf
  }

  ofAll(limit: number): Promise<Orphan[]> {
    return this.#find(limit, limit, () => true)
  }

  async of(tenant: string, limit: number): Promise<string[]> {
    const isOwn = (turn: Orphan) => turn.tenant === tenant
    const orphans = await this.#find(limit, Math.max(limit, PAGE), isOwn)
    return orphans.map(({ turnId }) => turnId)
  }

  async #find(limit: number, page: number, isWanted: (turn: Orphan) => boolean): Promise<Orphan[]> {
    const orphans: Orphan[] = []
    for (let skip = 0; orphans.length < limit; ) {
      const due = await this.#leases.due(skip, page)
      const wanted = due.filter(isWanted)
      const verdicts = await Promise.all(wanted.map((turn) => this.#isOrphan(turn)))
      const found = wanted.filter((_turn, at) => verdicts[at])
      for (const { tenant, turnId } of found) orphans.push({ tenant, turnId })
      if (due.length < page) break
      // Those that were put right are no longer in the way.
      skip += due.length - wanted.length + found.length
    }
    return orphans.slice(0, limit)
  }

  async #isOrphan(turn: IndexedTurn): Promise<boolean> {
    if (isMember(turn)) return this.#turnsOf(turn.tenant).isOrphan(turn)
    await this.#leases.drop(turn)
    return false
  }
}
