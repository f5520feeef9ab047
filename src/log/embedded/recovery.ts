import { TurnstreamError } from '../../protocol/errors.ts'
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
 * Reads the open turns of all tenants when the store is opened, and stores the lines that only the journal has as chunks,
 * so that the journal begins empty. What ended is not looked at: it may be much.
 */
export async function recover(store: Store): Promise<void> {
  const { env, journal } = store
  const turns = new Map<number, EmbeddedTurn>()
  for (const { key, value } of env.tables.open.getRange({})) {
    const turn = store.turns.find(value)
    if (turn === undefined) {
      throw new TurnstreamError('STORE_CORRUPT', `turn ${parseKey(value).id} is missing`)
    }
    turns.set(Number(key), recoverTurn(turn, env))
  }
  for (const section of journal.read()) {
    const turn = turns.get(section.number)
    turn?.events.restoreLines(section, turn.state.logs.events.epochs)
  }
  for (const turn of turns.values()) turn.settleHeads()
  await emptyJournal(store, [...turns.values()])
  for (const turn of turns.values()) store.turns.of(turn.keys.tenant).add(turn)
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
  { env, journal, chunks }: Store,
  turns: readonly EmbeddedTurn[],
): Promise<void> {
  const writes: Write[] = []
  for (const { events } of turns) events.write(writes, env.tables, new JournalEntry(), true)
  journal.clear(writes)
  if (writes.length > 0) await env.commit(writes)
  for (const { events, state } of turns) events.committed(chunks, state.logs.events.epochs)
}
