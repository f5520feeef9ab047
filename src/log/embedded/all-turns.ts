import type { Orphan } from '../turn-log.ts'
import type { EmbeddedTurn } from './embedded-turn.ts'
import type { Environment, Write } from './environment.ts'
import type { GroupCommit } from './group-commit.ts'
import { LoadedTurns } from './loaded-turns.ts'
import { parseKey, TenantKeys } from './tenant-keys.ts'

/** In the table `store`: [DAMAGED, key of the turn] to nothing. */
export const DAMAGED = 'damaged'
const DAMAGED_RANGE = { start: [DAMAGED, ''], end: [DAMAGED, '\uffff'] }

/** The turns in memory of every tenant, also of one that nobody has asked for since the store was opened. */
export class AllTurns {
  readonly #env: Environment
  readonly #commits: GroupCommit
  readonly #tenants = new Map<string, LoadedTurns>()
  /** The keys of turns that were open when a part of them was damaged. */
  readonly #damaged = new Set<string>()

  constructor(env: Environment, commits: GroupCommit) {
    this.#env = env
    this.#commits = commits
    for (const { key } of env.tables.store.getRange(DAMAGED_RANGE)) {
      if (Array.isArray(key)) this.#damaged.add(String(key[1]))
    }
  }

  /** From now on, the turn is STORE_CORRUPT. It stays so, since nothing else may tell that it has lost events. */
  markDamaged(turn: EmbeddedTurn, writes: Write[]): void {
    const key = turn.keys.of(turn.facts.turnId)
    this.#damaged.add(key)
    const { open, store } = this.#env.tables
    writes.push({ table: open, key: turn.facts.number })
    writes.push({ table: store, key: [DAMAGED, key], value: '' })
  }

  of(tenant: string): LoadedTurns {
    const known = this.#tenants.get(tenant)
    if (known !== undefined) return known
    const made = new LoadedTurns(new TenantKeys(tenant), this.#env, this.#commits, this.#damaged)
    this.#tenants.set(tenant, made)
    return made
  }

  /** The turn under a key of the store. */
  find(key: string): EmbeddedTurn | undefined {
    const { tenant, id } = parseKey(key)
    return this.of(tenant).find(id)
  }

  *values(): Iterable<EmbeddedTurn> {
    for (const turns of this.#tenants.values()) yield* turns.values()
  }

  /** The turns that nobody writes to any more. */
  orphans(now: number, limit: number): Orphan[] {
    const orphans: Orphan[] = []
    for (const [tenant, turns] of this.#tenants) {
      const found = turns.orphans(now, limit - orphans.length)
      for (const turnId of found) orphans.push({ tenant, turnId })
    }
    return orphans
  }
}
