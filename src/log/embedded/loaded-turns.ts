import { TurnstreamError } from '../../protocol/errors.ts'
import { hasRunOut, isSealed } from '../rules.ts'
import type { Chunks } from './chunks.ts'
import { EmbeddedTurn } from './embedded-turn.ts'
import type { Environment } from './environment.ts'
import type { GroupCommit } from './group-commit.ts'
import { type Journal, JournalEntry } from './journal.ts'
import { parseTurn, type StoredTurn } from './stored-turn.ts'

/** The turns in memory: all that are open, and those that somebody reads, once each. */
export class LoadedTurns {
  readonly #env: Environment
  readonly #commits: GroupCommit
  readonly #turns = new Map<string, EmbeddedTurn>()
  /** The open turn of a thread, as decided. */
  readonly #openOfThread = new Map<string, EmbeddedTurn>()

  constructor(env: Environment, commits: GroupCommit) {
    this.#env = env
    this.#commits = commits
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
    const text = this.#commits.get(this.#env.tables.turns, turnId)
    return text === undefined ? undefined : EmbeddedTurn.load(parseTurn(text))
  }

  /** The turn as readers may see it. */
  stored(turnId: string): StoredTurn | undefined {
    const loaded = this.#turns.get(turnId)?.committed
    if (loaded !== undefined) return loaded
    const text = this.#env.tables.turns.get(turnId)
    return text === undefined ? undefined : parseTurn(text)
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

/**
 * Reads the open turns when the store is opened, and stores the lines that only the journal has as chunks,
 * so that the journal begins empty. What ended is not looked at: it may be much.
 */
export async function recover(
  env: Environment,
  journal: Journal,
  chunks: Chunks,
): Promise<EmbeddedTurn[]> {
  const { tables } = env
  const turns = new Map<number, EmbeddedTurn>()
  for (const { key, value: turnId } of tables.open.getRange({})) {
    const text = tables.turns.get(turnId)
    if (text === undefined) throw new TurnstreamError('STORE_CORRUPT', `turn ${turnId} is missing`)
    turns.set(Number(key), recoverTurn(EmbeddedTurn.load(parseTurn(text)), env))
  }
  for (const section of journal.read()) {
    const turn = turns.get(section.number)
    turn?.events.restoreLines(section, turn.state.logs.events.epochs)
  }
  for (const turn of turns.values()) turn.settleHeads()
  await emptyJournal(env, journal, { turns: [...turns.values()], chunks })
  return [...turns.values()]
}

function recoverTurn(turn: EmbeddedTurn, { tables }: Environment): EmbeddedTurn {
  const { number } = turn.facts
  const newest = { start: [number + 1], end: [number], reverse: true, limit: 1 }
  for (const { key, value } of tables.chunks.getRange(newest)) {
    const first = Array.isArray(key) ? Number(key[1]) : 0
    turn.events.restoreChunk(first, value, turn.state.logs.events.epochs)
  }
  turn.load(tables)
  return turn
}

async function emptyJournal(
  env: Environment,
  journal: Journal,
  { turns, chunks }: { turns: readonly EmbeddedTurn[]; chunks: Chunks },
): Promise<void> {
  const writes: Parameters<Environment['commit']>[0][number][] = []
  for (const { events } of turns) events.write(writes, env.tables, new JournalEntry(), true)
  journal.clear(writes)
  if (writes.length > 0) await env.commit(writes)
  for (const { events, state } of turns) events.committed(chunks, state.logs.events.epochs)
}
