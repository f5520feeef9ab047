import { hasCode, TurnstreamError } from '../../protocol/errors.ts'
import type { AllTurns } from './all-turns.ts'
import type { Chunks } from './chunks.ts'
import type { EmbeddedTurn } from './embedded-turn.ts'
import type { Environment, Write } from './environment.ts'
import { type Journal, JournalEntry } from './journal.ts'
import { parseKey } from './tenant-keys.ts'

interface Store {
  readonly env: Environment
  readonly journal: Journal
  readonly chunks: Chunks
  readonly turns: AllTurns
}

/**
 * Reads the open turns of all tenants when the store is opened, and stores the lines that only the journal has as
 * chunks, so that the journal begins empty. Turns that have ended are not read: there may be many. A turn of which
 * something is damaged is STORE_CORRUPT from then on, and the others are not affected.
 */
export async function recover(store: Store): Promise<void> {
  const { env, journal } = store
  const turns = new Map<number, EmbeddedTurn>()
  const damaged = new Set<EmbeddedTurn>()
  for (const { key, value } of env.tables.open.getRange({})) {
    const turn = findTurn(store, value)
    if (turn === undefined) continue
    turns.set(Number(key), turn)
    unlessDamaged(turn, damaged, () => recoverTurn(turn, env))
  }
  try {
    for (const section of journal.read()) {
      const turn = turns.get(section.number)
      if (turn === undefined || damaged.has(turn)) continue
      const { epochs } = turn.state.logs.events
      unlessDamaged(turn, damaged, () => turn.events.restoreLines(section, epochs))
    }
  } catch (error) {
    if (!hasCode(error, 'STORE_CORRUPT')) throw error
    // Nobody knows whose lines were in that entry.
    for (const turn of turns.values()) damaged.add(turn)
  }
  const intact = [...turns.values()].filter((turn) => !damaged.has(turn))
  for (const turn of intact) turn.settleHeads()
  await emptyJournal(store, intact, damaged)
  for (const turn of intact) store.turns.of(turn.keys.tenant).add(turn)
}

/** Undefined if the turn's record is damaged, which whoever reads it is told. */
function findTurn({ turns }: Store, key: string): EmbeddedTurn | undefined {
  try {
    const turn = turns.find(key)
    if (turn !== undefined) return turn
  } catch (error) {
    if (!hasCode(error, 'STORE_CORRUPT')) throw error
    return undefined
  }
  throw new TurnstreamError('STORE_CORRUPT', `turn ${parseKey(key).id} is missing`)
}

function unlessDamaged(
  turn: EmbeddedTurn,
  damaged: Set<EmbeddedTurn>,
  restore: () => unknown,
): void {
  try {
    restore()
  } catch (error) {
    if (!hasCode(error, 'STORE_CORRUPT')) throw error
    damaged.add(turn)
  }
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
  { env, journal, chunks, turns: all }: Store,
  turns: readonly EmbeddedTurn[],
  damaged: Iterable<EmbeddedTurn>,
): Promise<void> {
  const writes: Write[] = []
  for (const turn of damaged) all.markDamaged(turn, writes)
  for (const { events } of turns) events.write(writes, env.tables, new JournalEntry(), true)
  journal.clear(writes)
  if (writes.length > 0) await env.commit(writes)
  for (const { events, state } of turns) events.committed(chunks, state.logs.events.epochs)
}
