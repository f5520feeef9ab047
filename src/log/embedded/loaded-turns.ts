import { TurnstreamError } from '../../protocol/errors.ts'
import { hasRunOut, isSealed } from '../rules.ts'
import { EmbeddedTurn } from './embedded-turn.ts'
import type { Environment } from './environment.ts'
import type { GroupCommit } from './group-commit.ts'
import { parseTurn, type StoredTurn } from './stored-turn.ts'
import type { TenantKeys } from './tenant-keys.ts'

/**
 * The turns of a tenant in memory: all that are open, and those that somebody reads, once each. By their ids
 * as every token brings them along: a key of the store would have to be made for each.
 */
export class LoadedTurns {
  readonly keys: TenantKeys
  readonly #env: Environment
  readonly #commits: GroupCommit
  readonly #damaged: ReadonlySet<string>
  readonly #turns = new Map<string, EmbeddedTurn>()
  /** The open turn of a thread, as decided. */
  readonly #openOfThread = new Map<string, EmbeddedTurn>()

  constructor(
    keys: TenantKeys,
    env: Environment,
    commits: GroupCommit,
    damaged: ReadonlySet<string>,
  ) {
    this.keys = keys
    this.#env = env
    this.#commits = commits
    this.#damaged = damaged
  }

  add(turn: EmbeddedTurn): void {
    const { turnId, threadId } = turn.facts
    this.#turns.set(turnId, turn)
    this.#openOfThread.set(threadId, turn)
  }

  remove(turn: EmbeddedTurn): void {
    const { turnId, threadId } = turn.facts
    if (this.#turns.get(turnId) === turn) this.#turns.delete(turnId)
    if (this.#openOfThread.get(threadId) === turn) this.#openOfThread.delete(threadId)
  }

  /** Takes a turn back that was removed. */
  restore(turn: EmbeddedTurn): void {
    if (turn.isSealed) this.#turns.set(turn.facts.turnId, turn)
    else this.add(turn)
    this.forgetIdle(turn)
  }

  values(): Iterable<EmbeddedTurn> {
    return this.#turns.values()
  }

  /** The turn as decided, from the store if need be; undefined if there is none. */
  find(turnId: string): EmbeddedTurn | undefined {
    const loaded = this.#turns.get(turnId)
    if (loaded !== undefined) return loaded
    const text = this.#commits.get(this.#env.tables.turns, this.#key(turnId))
    return text === undefined ? undefined : EmbeddedTurn.load(parseTurn(text), this.keys)
  }

  /** The turn as readers may see it. */
  stored(turnId: string): StoredTurn | undefined {
    const loaded = this.#turns.get(turnId)?.committed
    if (loaded !== undefined) return loaded
    const text = this.#env.tables.turns.get(this.#key(turnId))
    return text === undefined ? undefined : parseTurn(text)
  }

  /** STORE_CORRUPT for a turn that is known to be damaged. */
  #key(turnId: string): string {
    const key = this.keys.of(turnId)
    if (!this.#damaged.has(key)) return key
    throw new TurnstreamError('STORE_CORRUPT', `turn ${turnId} is damaged`)
  }

  /** Keeps a turn in memory while somebody uses it. */
  hold(turn: EmbeddedTurn): () => void {
    const { turnId } = turn.facts
    if (!this.#turns.has(turnId)) this.#turns.set(turnId, turn)
    const release = turn.hold()
    return () => {
      release()
      this.forgetIdle(turn)
    }
  }

  /** A turn that ended stays only while it is read. */
  forgetIdle(turn: EmbeddedTurn): void {
    if (turn.isIdle) this.remove(turn)
  }

  openOf(threadId: string): EmbeddedTurn | undefined {
    const turn = this.#openOfThread.get(threadId)
    return turn?.isSealed === false ? turn : undefined
  }

  /** Throws THREAD_BUSY while a turn of the thread is open. */
  checkFree(threadId: string): void {
    const open = this.openOf(threadId)
    if (open !== undefined) throw new TurnstreamError('THREAD_BUSY', `turn ${open.facts.turnId}`)
  }

  /** The turns that nobody writes to any more. */
  orphans(now: number, limit: number): string[] {
    const orphans: string[] = []
    for (const turn of this.#turns.values()) {
      if (orphans.length >= limit) break
      const { committed } = turn
      const isOpen = committed !== undefined && !isSealed(committed.state)
      if (isOpen && hasRunOut(turn.state, now)) orphans.push(turn.facts.turnId)
    }
    return orphans
  }
}
