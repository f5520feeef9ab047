import type { Clock } from '../../async/clock.ts'
import { hasCode, type TurnstreamError } from '../../protocol/errors.ts'
import { pageLimit, pageOf, parseOrdinal } from '../paging.ts'
import type { Page, TurnPageOptions, TurnRecord } from '../turn-log.ts'
import type { Environment } from './environment.ts'
import type { LoadedTurns } from './loaded-turns.ts'
import { remains, type StoredTurn, turnRecord } from './stored-turn.ts'

interface Store {
  readonly env: Environment
  readonly clock: Clock
  readonly retentionMs: number
}

/** The records of a tenant's turns as they are stored, without what is older than they are kept. */
export class TurnRecords {
  readonly #store: Store
  readonly #turns: LoadedTurns

  constructor(store: Store, turns: LoadedTurns) {
    this.#store = store
    this.#turns = turns
  }

  get(turnId: string): TurnRecord | undefined {
    const turn = this.#turns.stored(turnId)
    return turn === undefined || this.remains(turn) === 'nothing' ? undefined : this.recordOf(turn)
  }

  response(turnId: string): string | undefined {
    const turn = this.#turns.stored(turnId)
    if (turn === undefined || this.remains(turn) !== 'all') return undefined
    return this.#store.env.tables.responses.get(turn.number)
  }

  /** Only where a run has another id than its turn is there an entry for it. */
  ofRun(runId: string): TurnRecord | undefined {
    const turnId = this.#store.env.tables.runs.get(this.#turns.keys.of(runId))
    const record = this.get(turnId ?? runId)
    return record?.runId === runId ? record : undefined
  }

  list(threadId: string, options: TurnPageOptions): Page<TurnRecord> {
    const limit = pageLimit(options)
    const from = options.cursor === undefined ? undefined : parseOrdinal(options.cursor)
    const found: TurnRecord[] = []
    for (const turnId of this.#ids(threadId, options.first === 'newest', from)) {
      const record = this.get(turnId)
      if (record !== undefined) found.push(record)
      if (found.length > limit) break
    }
    return pageOf(found, limit, ({ ordinal }) => String(ordinal))
  }

  /** The ids of all turns of a thread. */
  idsOf(threadId: string): Iterable<string> {
    return this.#ids(threadId, false, undefined)
  }

  /** The same, with the error in the place of an id that is damaged. */
  *readableIds(threadId: string): Generator<string | TurnstreamError> {
    const key = this.#turns.keys.of(threadId)
    const { threadTurns } = this.#store.env.tables
    // All at once: a cursor of LMDB must not stay open while turns are read.
    const places = [...threadTurns.getKeys({ start: [key, 0], end: [key, Infinity] })]
    for (const place of places) {
      try {
        yield threadTurns.get(place) ?? ''
      } catch (error) {
        if (!hasCode(error, 'STORE_CORRUPT')) throw error
        yield error
      }
    }
  }

  *#ids(threadId: string, isReverse: boolean, from: number | undefined): Generator<string> {
    const key = this.#turns.keys.of(threadId)
    const oldest = [key, 0]
    const newest = [key, Infinity]
    const end = isReverse ? oldest : newest
    const start = from === undefined ? (isReverse ? newest : oldest) : [key, from]
    const range = { start, end, reverse: isReverse, exclusiveStart: true }
    for (const { value } of this.#store.env.tables.threadTurns.getRange(range)) yield value
  }

  /** Whether anything is left of the turns of a thread, as decided. */
  hasAny(threadId: string): boolean {
    if (this.#turns.openOf(threadId) !== undefined) return true
    for (const turnId of this.idsOf(threadId)) {
      try {
        if (this.get(turnId) !== undefined) return true
      } catch {
        // What cannot be read is there, until the sweeper removes it.
        return true
      }
    }
    return false
  }

  recordOf(turn: StoredTurn): TurnRecord {
    return turnRecord(turn, this.remains(turn) !== 'all')
  }

  remains(turn: StoredTurn) {
    return remains(turn, this.#store.clock.now(), this.#store.retentionMs)
  }
}
