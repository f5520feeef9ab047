import type { Orphan } from '../turn-log.ts'
import type { EmbeddedTurn } from './embedded-turn.ts'
import type { Environment } from './environment.ts'
import type { GroupCommit } from './group-commit.ts'
import { LoadedTurns } from './loaded-turns.ts'
import { parseKey, TenantKeys } from './tenant-keys.ts'

/** The turns in memory of every tenant, also of one that nobody has asked for since the store was opened. */
export class AllTurns {
  readonly #env: Environment
  readonly #commits: GroupCommit
  readonly #tenants = new Map<string, LoadedTurns>()

  constructor(env: Environment, commits: GroupCommit) {
    this.#env = env
    this.#commits = commits
  }

  of(tenant: string): LoadedTurns {
    const known = this.#tenants.get(tenant)
    if (known !== undefined) return known
    const made = new LoadedTurns(new TenantKeys(tenant), this.#env, this.#commits)
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
