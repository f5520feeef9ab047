import type { Orphan } from '@turnstream/core/internal/log/turn-log'
import { DEFAULT_TENANT, isTenant } from '@turnstream/core/internal/protocol/names'
import { parseTenantKey } from '../tenants.ts'
import type { RedisClient } from './client.ts'
import type { Retention } from './keys.ts'
import { type Scored, scored } from './replies.ts'
import { DROP, DUE, INDEX } from './scripts/thread.ts'

export interface IndexedTurn extends Orphan, Scored {}

export type LeaseIndex = ReturnType<typeof createLeaseIndex>

/** Open turns of all tenants by lease expiry: `<id>`, or `<tenant> <id>`. Only an index: the turn record decides. */
export function createLeaseIndex(key: string, client: RedisClient, retention: Retention) {
  return {
    async put(turn: Orphan, until: number, leaseMs: number): Promise<void> {
      await client.run(INDEX, [key], [until, memberOf(turn), retention.openMs(leaseMs)])
    },

    /** Turns with an expired lease, oldest first. */
    async due(skip: number, limit: number): Promise<IndexedTurn[]> {
      return scored(await client.run(DUE, [key], [skip, limit])).map(({ member, score }) => {
        const { tenant, id: turnId } = parseTenantKey(member)
        return { tenant, turnId, member, score }
      })
    },

    async remove(turn: Orphan): Promise<void> {
      await client.command('ZREM', key, memberOf(turn))
    },

    /** Removes a turn, unless it was added again since it was read. */
    async drop({ member, score }: IndexedTurn): Promise<void> {
      await client.run(DROP, [key], [member, score])
    },
  }
}

function memberOf({ tenant, turnId }: Orphan): string {
  return tenant === DEFAULT_TENANT ? turnId : `${tenant} ${turnId}`
}

/** Members of the index read at once while skipping other tenants. */
const PAGE = 100

/** Finds abandoned turns of one tenant or all. The index may be stale: wrong entries are corrected. */
export async function findOrphans(
  leases: LeaseIndex,
  logOf: (tenant: string) => { isOrphan(turn: IndexedTurn): Promise<boolean> },
  limit: number,
  tenant?: string,
): Promise<Orphan[]> {
  const page = tenant === undefined ? limit : Math.max(limit, PAGE)
  const isOrphan = async (turn: IndexedTurn) => {
    const { tenant, member } = turn
    // Only members that this package writes.
    if (isTenant(tenant) && memberOf(turn) === member) return logOf(turn.tenant).isOrphan(turn)
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
