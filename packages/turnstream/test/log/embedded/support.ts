import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { responseDone, turnComplete } from '../../../../conformance/src/turn-log/texts.ts'
import type { Lease, LogRecord, NewTurn, TurnLog } from '../../../../core/src/log/turn-log.ts'
import { DATA_FILE } from '../../../src/log/embedded/data-file.ts'
import { Environment } from '../../../src/log/embedded/environment.ts'
import { unpackLines } from '../../../src/log/embedded/turn-events.ts'
import { type EmbeddedLogOptions, openEmbeddedLog } from '../../../src/server.ts'

export const LEASE_MS = 60_000

export function temporaryFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-embedded-'))
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

/** A folder that goes with the test. */
export function folderOfTest(): string {
  const { folder, remove } = temporaryFolder()
  onTestFinished(remove)
  return folder
}

/** A log that is closed with the test. Without a pause between commits, for the sake of time. */
export async function openLog(
  directory: string,
  options: Partial<EmbeddedLogOptions> = {},
): Promise<TurnLog> {
  const log = await openEmbeddedLog({ directory, sync: 'system', commitIntervalMs: 0, ...options })
  onTestFinished(() => log.close())
  return log
}

export async function createTurn(
  log: TurnLog,
  turnId: string,
  more: Partial<NewTurn> = {},
): Promise<Lease> {
  const turn = { turnId, threadId: `thread-of-${turnId}`, owner: 'test', ...more }
  return await log.create(turn, LEASE_MS)
}

/** Seals both logs; these are the numbers of their last records. */
export async function endTurn(
  log: TurnLog,
  lease: Lease,
  last: { events: number; processed: number },
): Promise<void> {
  const { turnId } = lease
  const done = { seq: last.events, data: responseDone(turnId, last.events) }
  await appendTo(log, lease, 'events', [done], { seal: true })
  const complete = { seq: last.processed, data: turnComplete(turnId) }
  await appendTo(log, lease, 'processed', [complete], { seal: true })
}

/** So many events of a turn, from its beginning. */
export async function readEvents(
  log: TurnLog,
  turnId: string,
  count: number,
): Promise<LogRecord[]> {
  const found: LogRecord[] = []
  if (count === 0) return found
  for await (const record of log.tail(turnId, 'events', '0-0', new AbortController().signal)) {
    if ('resync' in record) throw new Error(`resync: ${record.resync}`)
    found.push(record)
    if (found.length === count) break
  }
  return found
}

/** What is in the tables of a store that nobody has open. */
export async function tablesOf(directory: string) {
  const env = await Environment.open(join(directory, DATA_FILE), 'system')
  try {
    const { chunks, journal, open, processed } = env.tables
    const chunkRows = [...chunks.getRange({})].map(({ key, value }) => {
      const [number, first] = key as [number, number]
      return { number, first, lines: unpackLines(value).length }
    })
    const journalChars = [...journal.getRange({})].reduce((sum, { value }) => sum + value.length, 0)
    return {
      chunks: chunkRows,
      journal: { entries: journal.entryCount, chars: journalChars },
      open: open.entryCount,
      processed: processed.entryCount,
    }
  } finally {
    await env.close()
  }
}

export type DamagedRecord = readonly [
  table: 'threads' | 'turns' | 'threadTurns' | 'store' | 'open',
  key: string | number,
]

/** Values without the right checksum, as after damage on the disk. */
export function damageRecords(directory: string, records: readonly DamagedRecord[]): Promise<void> {
  return overwriteRecords(directory, records, 'damaged')
}

/** As after damage to their keys. */
export function loseRecords(directory: string, records: readonly DamagedRecord[]): Promise<void> {
  return overwriteRecords(directory, records, undefined)
}

async function overwriteRecords(
  directory: string,
  records: readonly DamagedRecord[],
  value: string | undefined,
): Promise<void> {
  const { open } = await import('lmdb')
  const root = open({
    path: join(directory, DATA_FILE),
    noSubdir: true,
    encoding: 'string',
    maxDbs: 20,
  })
  for (const [name, key] of records) {
    const table = root.openDB<string>({ name, encoding: 'string' })
    const place = name === 'threadTurns' ? [String(key), 1] : key
    await (value === undefined ? table.remove(place) : table.put(place, value))
  }
  await root.close()
}
