import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import type {
  ListedTurn,
  OutputRecord,
  Page,
  TurnLog,
  TurnPageOptions,
  TurnSnapshot,
} from '@turnstream/core/internal/log/turn-log'
import { hasCode } from '@turnstream/core/internal/protocol/errors'
import { isOutputItem } from '@turnstream/core/internal/protocol/item-ids'
import { START } from '../log/offsets.ts'
import { once } from './once.ts'

export interface ListedOutputs extends TurnSnapshot {
  readonly expired?: true
  readonly damaged?: true
}

/** How many turns after a page to search for the outputs of its calls. */
const MAX_LATER_TURNS = 100
/** How many records of turns to list in order to find these turns. */
const MAX_LISTED = 2000
const LIST_LIMIT = 200

type Completions = ReadonlyMap<string, OutputRecord>

/**
 * One page of a thread, in which every call appears once, in the turn that made it. A call that the client
 * answered is completed in a later turn, on this page or after it. A replaced turn completes only calls of replaced turns.
 */
export class ThreadPage {
  readonly #log: TurnLog
  readonly #threadId: string
  #options: TurnPageOptions = {}
  #page: Page<ListedTurn> = { items: [] }
  /** Turns after the page, oldest first. */
  readonly #listLater = once(() => this.#findLater())
  /** Calls of earlier turns that a turn completes, by turn. */
  readonly #completions = new Map<string, Completions>()
  /** The snapshot that was read last: usually the next turn of the page has the outputs. */
  #latest: { readonly turnId: string; readonly outputs: ListedOutputs | undefined } | undefined

  constructor(log: TurnLog, threadId: string) {
    this.#log = log
    this.#threadId = threadId
  }

  async list(options: TurnPageOptions): Promise<Page<ListedTurn>> {
    this.#options = options
    this.#page = await this.#log.listTurns(this.#threadId, options)
    return this.#page
  }

  /** Returns the outputs of a turn of the page; undefined if it was deleted since it was listed. */
  async outputs(turn: ListedTurn): Promise<ListedOutputs | undefined> {
    const outputs = await this.#read(turn)
    if (outputs === undefined) return undefined
    const records: OutputRecord[] = []
    for (const record of outputs.records) {
      const isReplaced = turn.replacedBy !== undefined
      if (!isReplaced && isForeign(turn, record) && this.#hasTurnOf(record)) continue
      records.push(isOpenCall(turn, record) ? await this.#completed(turn, record) : record)
    }
    return { ...outputs, records }
  }

  /** Returns whether the turn that made the call is on this page. */
  #hasTurnOf({ key }: OutputRecord): boolean {
    return this.#page.items.some(({ runId, expired }) => !expired && isOutputItem(runId, key))
  }

  async #completed(turn: ListedTurn, call: OutputRecord): Promise<OutputRecord> {
    const onPage = this.#page.items.filter(
      ({ ordinal, replacedBy }) =>
        ordinal > turn.ordinal && (replacedBy === undefined || turn.replacedBy !== undefined),
    )
    const oldestFirst = onPage.toSorted((one, other) => one.ordinal - other.ordinal)
    return (
      (await this.#completionIn(oldestFirst, call)) ??
      (await this.#completionIn(await this.#listLater(), call)) ??
      call
    )
  }

  async #completionIn(turns: readonly ListedTurn[], call: OutputRecord) {
    for (const turn of turns) {
      const completion = (await this.#completionsIn(turn)).get(call.key)
      if (completion !== undefined) return completion
    }
    return undefined
  }

  async #completionsIn(turn: ListedTurn): Promise<Completions> {
    const known = this.#completions.get(turn.turnId)
    if (known !== undefined) return known
    if (isSliceOver()) await nextSlice()
    const { records = [] } = (await this.#read(turn)) ?? {}
    const foreign = records.filter((record) => isForeign(turn, record))
    const completions = new Map(foreign.map((record) => [record.key, record]))
    this.#completions.set(turn.turnId, completions)
    return completions
  }

  async #findLater(): Promise<readonly ListedTurn[]> {
    if (this.#options.first === 'newest') return this.#listNewer()
    const { nextCursor: cursor } = this.#page
    if (cursor === undefined) return []
    const options = { first: 'oldest', limit: MAX_LATER_TURNS, cursor } as const
    return (await this.#log.listTurns(this.#threadId, options)).items
  }

  /** Pages can only be listed from an end of the thread: from the newest turn down to this page. */
  async #listNewer(): Promise<readonly ListedTurn[]> {
    const newest = Math.max(...this.#page.items.map(({ ordinal }) => ordinal))
    const newer: ListedTurn[] = []
    let cursor: string | undefined
    do {
      const place = cursor === undefined ? {} : { cursor }
      const options = { first: 'newest', limit: LIST_LIMIT, ...place } as const
      const page = await this.#log.listTurns(this.#threadId, options)
      const found = page.items.filter(({ ordinal }) => ordinal > newest)
      newer.push(...found)
      cursor = found.length === page.items.length ? page.nextCursor : undefined
    } while (cursor !== undefined && newer.length < MAX_LISTED)
    return newer.toReversed().slice(0, MAX_LATER_TURNS)
  }

  async #read(turn: ListedTurn): Promise<ListedOutputs | undefined> {
    const { turnId } = turn
    if (this.#latest?.turnId === turnId) return this.#latest.outputs
    const outputs = await readOutputs(this.#log, turn)
    this.#latest = { turnId, outputs }
    return outputs
  }
}

const EMPTY = { records: [], offset: START, sealed: true } as const
const EXPIRED: ListedOutputs = { ...EMPTY, expired: true }
const DAMAGED: ListedOutputs = { ...EMPTY, damaged: true }

async function readOutputs(log: TurnLog, turn: ListedTurn): Promise<ListedOutputs | undefined> {
  if (turn.damaged) return DAMAGED
  if (turn.expired) return EXPIRED
  try {
    return await log.snapshot(turn.turnId)
  } catch (error) {
    if (hasCode(error, 'TURN_UNKNOWN') || hasCode(error, 'TURN_DELETED')) return undefined
    if (hasCode(error, 'TURN_EXPIRED')) return EXPIRED
    if (hasCode(error, 'STORE_CORRUPT')) return DAMAGED
    throw error
  }
}

/** Snapshots begin with their type. Parsing every text of a page would cost more than reading it. */
export function isCall({ data }: OutputRecord): boolean {
  return data.startsWith('{"type":"tool_call"')
}

/** Returns whether the record completes a call of an earlier turn. */
function isForeign({ runId }: ListedTurn, record: OutputRecord): boolean {
  return !isOutputItem(runId, record.key) && isCall(record)
}

/** Returns whether the record is a call that was left to the client. */
function isOpenCall({ runId, sealed }: ListedTurn, record: OutputRecord): boolean {
  if (!sealed || !isOutputItem(runId, record.key) || !isCall(record)) return false
  return 'status' in record.output && record.output.status === 'create'
}
