import { join } from 'node:path'
import { type Clock, steadyTime, systemClock } from '@turnstream/core/internal/async/clock'
import type { Orphan } from '@turnstream/core/internal/log/turn-log'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { LocalLog } from '../local-log.ts'
import { corrupt, storeClosed } from '../rules.ts'
import { parseTenantKey } from '../tenants.ts'
import { migrate } from './compact.ts'
import { checkTablePages, DATA_FILE, removeCopy, storeError } from './data-file.ts'
import { checkWritable, lockDirectory, makeDirectory, StoreFiles } from './directory.ts'
import { EmbeddedLog } from './embedded-log.ts'
import type { EmbeddedTurn } from './embedded-turn.ts'
import { Environment, type Tables, unlessDamaged, type Write } from './environment.ts'
import { GroupCommit, JournalEntry } from './group-commit.ts'
import type { EmbeddedLogOptions } from './open.ts'
import { readTurn, Sweeper } from './removal.ts'
import { DAMAGED } from './stored-turn.ts'
import { Chunks } from './turn-events.ts'

const WEEK_MS = 7 * 24 * 60 * 60 * 1000
const MINUTE_MS = 60 * 1000
// A commit costs half a millisecond of CPU, and no reader notices a delay of 20 ms.
const COMMIT_INTERVAL_MS = 30

/** How often an idle store checks that its files exist. */
const FILES_CHECK_MS = 1000

/** Large tables, whose losses reads detect. Those of other tables would only be missing from lists. */
const UNVERIFIED = new Set(['processed', 'responses', 'chunks'])

const DAMAGED_RANGE = { start: [DAMAGED, ''], end: [DAMAGED, '\uffff'] }

/** Shared by the logs of all tenants in a directory. */
export class EmbeddedStore {
  readonly env: Environment
  readonly chunks: Chunks
  readonly commits: GroupCommit
  readonly clock: Clock
  /** Setting the clock must neither expire everything at once nor keep content longer. */
  readonly steadyNow: () => number
  readonly retentionMs: number
  readonly onError: (error: unknown) => void
  readonly #files: StoreFiles
  #filesCheckedAt: number
  readonly #unlock: () => Promise<void>
  readonly #sweeper: Sweeper
  readonly #tenants = new Map<string, EmbeddedLog>()
  readonly damaged = new Set<string>()
  #closing: Promise<void> | undefined
  #nextNumber: number

  private constructor(env: Environment, options: EmbeddedLogOptions, unlock: () => Promise<void>) {
    const { retentionMs = WEEK_MS, sweepMs = MINUTE_MS, clock = systemClock } = options
    const { commitIntervalMs = COMMIT_INTERVAL_MS, onError = () => {} } = options
    this.env = env
    this.clock = clock
    this.steadyNow = steadyTime(clock)
    this.retentionMs = retentionMs
    this.onError = onError
    this.chunks = new Chunks(env.tables.chunks)
    this.#files = new StoreFiles(options.directory, (reason) => this.#endAll(reason))
    this.#filesCheckedAt = clock.now()
    this.commits = new GroupCommit(env, this.#files, commitIntervalMs)
    this.#sweeper = new Sweeper(this, sweepMs)
    this.#unlock = unlock
    this.#nextNumber = nextNumber(env.tables)
    for (const key of env.tables.store.getKeys(DAMAGED_RANGE)) {
      if (Array.isArray(key)) this.damaged.add(String(key[1]))
    }
  }

  /** With `onDamage`, damaged pages of lists and missing open turns are reported instead of refused. */
  static async open(options: EmbeddedLogOptions, onDamage?: (error: TurnstreamError) => void) {
    const { directory, sync = 'commit' } = options
    if (directory === '') throw new TurnstreamError('OPTION_INVALID', 'directory is empty')
    await makeDirectory(directory)
    await checkWritable(directory)
    const unlock = await lockDirectory(directory)
    try {
      await removeCopy(directory)
      const file = join(directory, DATA_FILE)
      await checkTablePages(file, (table) => !UNVERIFIED.has(table)).catch((error) => {
        if (onDamage === undefined || !hasCode(error, 'STORE_CORRUPT')) throw error
        onDamage(error)
      })
      await migrate(directory)
      const env = await Environment.open(file, sync)
      const store = new EmbeddedStore(env, options, unlock)
      await store.#recover(onDamage)
      store.#sweeper.start()
      return store
    } catch (error) {
      await unlock()
      throw await storeError(error, directory)
    }
  }

  /** Returns the number of a new turn of any tenant. Stored with the next change. */
  takeNumber(): number {
    const number = this.#nextNumber++
    this.commits.stage(this.env.tables.store, 'nextNumber', String(this.#nextNumber))
    return number
  }

  logOf(tenant: string): EmbeddedLog {
    const known = this.#tenants.get(tenant)
    if (known !== undefined) return known
    const created = new EmbeddedLog(this, tenant)
    this.#tenants.set(tenant, created)
    return created
  }

  findTurn(key: string): EmbeddedTurn | undefined {
    const { tenant, id } = parseTenantKey(key)
    return this.logOf(tenant).find(id)
  }

  orphans(limit: number): Orphan[] {
    return LocalLog.orphansOf(this.#tenants, limit)
  }

  storedBytes(): number {
    return this.env.bytesUsed() + this.commits.journal.bytesNeeded()
  }

  /** Throws STORE_CLOSED or STORE_LOST. An idle store detects the latter within a second of use. */
  checkOpen(): void {
    if (this.#closing !== undefined) throw storeClosed()
    const now = this.clock.now()
    if (!this.#files.isLost && Math.abs(now - this.#filesCheckedAt) < FILES_CHECK_MS) return
    this.#filesCheckedAt = now
    this.#files.check()
  }

  #endAll(reason: TurnstreamError): void {
    for (const log of this.#tenants.values()) log.endAll(reason)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await this.#sweeper.stop()
    await this.commits.idle()
    if (!this.#files.isLost) this.#endAll(storeClosed())
    await this.env.close()
    await this.#unlock()
  }

  /** Reads the open turns, and stores the journal as chunks. A turn with damaged parts becomes STORE_CORRUPT. */
  async #recover(onDamage?: (error: TurnstreamError) => void): Promise<void> {
    const turns = new Map<number, EmbeddedTurn>()
    const damaged = new Set<EmbeddedTurn>()
    for (const number of this.env.tables.open.getKeys({})) {
      const turn = this.#findOpen(Number(number), onDamage)
      if (turn === undefined) continue
      turns.set(Number(number), turn)
      if (!isIntact(() => turn.restore())) damaged.add(turn)
    }
    const isRead = isIntact(() => {
      for (const section of this.commits.journal.read()) {
        const turn = turns.get(section.number)
        if (turn === undefined || damaged.has(turn)) continue
        const { epochs } = turn.state.logs.events
        if (!isIntact(() => turn.events.restoreLines(section, epochs))) damaged.add(turn)
      }
    })
    // An unreadable entry may have held lines of any turn.
    if (!isRead) for (const turn of turns.values()) damaged.add(turn)
    const rest = [...turns.values()].filter((turn) => !damaged.has(turn))
    for (const turn of rest) turn.settleHeads()
    await this.#emptyJournal(rest, damaged)
    for (const turn of rest) this.logOf(turn.keys.tenant).add(turn)
  }

  /** Undefined if the turn's record is damaged: its readers get the error. */
  #findOpen(number: number, onDamage?: (error: TurnstreamError) => void): EmbeddedTurn | undefined {
    const { tables } = this.env
    const key = unlessDamaged(() => tables.open.getListed(number)) ?? keyWithNumber(tables, number)
    if (key === undefined) return undefined
    const turn = unlessDamaged(() => this.findTurn(key), null)
    if (turn !== undefined) return turn ?? undefined
    const missing = corrupt(`turn ${parseTenantKey(key).id} is missing`)
    if (onDamage === undefined) throw missing
    onDamage(missing)
    return undefined
  }

  async #emptyJournal(turns: readonly EmbeddedTurn[], damaged: Set<EmbeddedTurn>): Promise<void> {
    const writes: Write[] = []
    for (const turn of damaged) this.#markDamaged(turn, writes)
    for (const { events } of turns) events.write(writes, new JournalEntry(), true)
    this.commits.journal.clear(writes)
    if (writes.length > 0) await this.env.commit(writes)
    for (const { events } of turns) events.committed()
  }

  /** Persists STORE_CORRUPT: nothing else shows that the turn lost events. */
  #markDamaged({ keys, facts }: EmbeddedTurn, writes: Write[]): void {
    const key = keys.of(facts.turnId)
    this.damaged.add(key)
    const { open, store } = this.env.tables
    writes.push({ table: open, key: facts.number })
    writes.push({ table: store, key: [DAMAGED, key], value: '' })
  }
}

/** The number of the next turn. If its record is damaged, one after all that are in use. */
function nextNumber(tables: Tables): number {
  const stored = unlessDamaged(() => tables.store.get('nextNumber') ?? '1')
  if (stored !== undefined) return Number(stored)
  let last = 0
  for (const key of tables.turns.getKeys({})) {
    last = Math.max(last, readTurn(tables, String(key))?.number ?? 0)
  }
  // Of turns whose records are damaged, too.
  for (const table of [tables.chunks, tables.processed, tables.responses, tables.open]) {
    const [key] = table.getKeys({ reverse: true, limit: 1 })
    last = Math.max(last, Number(Array.isArray(key) ? key[0] : (key ?? 0)))
  }
  return last + 1
}

/** The key of the turn with a number, by reading all turns. */
function keyWithNumber(tables: Tables, number: number): string | undefined {
  for (const key of tables.turns.getKeys({})) {
    if (readTurn(tables, String(key))?.number === number) return String(key)
  }
  return undefined
}

function isIntact(read: () => void): boolean {
  return unlessDamaged(() => {
    read()
    return true
  }, false)
}
