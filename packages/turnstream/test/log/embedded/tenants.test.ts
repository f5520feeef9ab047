import { join } from 'node:path'
import type { Key } from 'lmdb'
import { describe, expect, test, vi } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { deltas, message } from '../../../../conformance/src/turn-log/texts.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { compactEmbeddedLog } from '../../../src/log/embedded/compact.ts'
import { DATA_FILE } from '../../../src/log/embedded/data-file.ts'
import { Environment, type Write } from '../../../src/log/embedded/environment.ts'
import { TenantKeys } from '../../../src/log/embedded/stored-turn.ts'
import { openEmbeddedLog } from '../../../src/server.ts'
import { createTurn, endTurn, folderOfTest, openLog, readEvents, tablesOf } from './support.ts'

const NOW = 1_700_000_000_000
const RETENTION_MS = 1000

type TableName = Exclude<keyof Environment['tables'], 'chunks'>
type Row = readonly [table: TableName, key: Key, value: string]

/** The rows that name an id, as they were before there were tenants: by heart, and not by any code. */
const DEFAULT_ROWS: readonly Row[] = [
  ['turns', 'done', 'done'],
  ['turns', 'left', 'left'],
  ['runs', 'run', 'done'],
  ['threads', 'thread', 'thread'],
  ['threads', 'other', 'other'],
  ['threadTurns', ['thread', 1], 'done'],
  ['threadTurns', ['other', 1], 'left'],
  ['recency', [NOW, 'other'], ''],
  ['recency', [NOW, 'thread'], ''],
  ['open', 2, 'left'],
  ['ended', ['logs', NOW, 'done'], ''],
]

const TENANT_ROWS: readonly Row[] = [
  ['turns', 'acme done', 'done'],
  ['turns', 'acme left', 'left'],
  ['runs', 'acme run', 'done'],
  ['threads', 'acme thread', 'thread'],
  ['threads', 'acme other', 'other'],
  ['threadTurns', ['acme thread', 1], 'done'],
  ['threadTurns', ['acme other', 1], 'left'],
  ['recency', ['acme', NOW, 'other'], ''],
  ['recency', ['acme', NOW, 'thread'], ''],
  ['open', 4, 'acme left'],
  ['ended', ['logs', NOW, 'acme done'], ''],
]

/** Every row that names an id; of a record only whose it is. */
async function rowsOf(directory: string): Promise<Row[]> {
  const env = await Environment.open(join(directory, DATA_FILE), 'system')
  const rows: Row[] = []
  for (const name of new Set(DEFAULT_ROWS.map(([table]) => table))) {
    for (const { key, value } of env.tables[name].getRange({})) {
      rows.push([name, key, idIn(value)])
    }
  }
  await env.close()
  return rows
}

function idIn(value: string): string {
  if (!value.startsWith('{')) return value
  const { turnId, record } = JSON.parse(value) as { turnId?: string; record?: { threadId: string } }
  return turnId ?? record?.threadId ?? ''
}

function sorted(rows: readonly Row[]): string[] {
  return rows.map((row) => JSON.stringify(row)).toSorted()
}

async function rename(directory: string, change: (id: string) => string): Promise<void> {
  const env = await Environment.open(join(directory, DATA_FILE), 'system')
  const writes: Write[] = []
  for (const { key, value } of env.tables.open.getRange({})) {
    writes.push({ table: env.tables.open, key, value: change(value) })
  }
  await env.commit(writes)
  await env.close()
}

/** A turn that has ended, of a run with a name of its own, and one that is open. */
async function fill(log: TurnLog): Promise<void> {
  const ids = { turnId: 'done', threadId: 'thread', runId: 'run', owner: 'test' }
  const done = await log.create(ids, 60_000)
  await appendTo(log, done, 'events', deltas('done', 1, 3))
  await endTurn(log, done, { events: 4, processed: 1 })
  const left = await log.create({ turnId: 'left', threadId: 'other', owner: 'test' }, 60_000)
  await appendTo(log, left, 'events', deltas('left', 1, 3))
  await appendTo(log, left, 'processed', [{ seq: 1, data: message('left', 'a', 'text') }])
}

describe('tenant keys in the embedded store', () => {
  test('L13 of default have no prefix, and others have the tenant name', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory, { clock: fakeClock(NOW) })
    await fill(log)
    await log.close()
    expect(sorted(await rowsOf(directory))).toEqual(sorted(DEFAULT_ROWS))
    const again = await openLog(directory, { clock: fakeClock(NOW) })
    await fill(again.ofTenant('acme'))
    await again.close()
    const all = [...DEFAULT_ROWS, ...TENANT_ROWS]
    expect(sorted(await rowsOf(directory))).toEqual(sorted(all))
  })

  test('L13 an open turn without a record is reported without its tenant', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    await createTurn(log.ofTenant('acme'), 'turn')
    await log.close()
    await rename(directory, (key) => `${key}-2`)
    const opening = openEmbeddedLog({ directory })
    await expect(opening).rejects.toThrow('turn turn-2 is missing')
    await expect(opening).rejects.not.toThrow('acme')
  })

  test('L13 appends create no keys', async () => {
    const log = (await openLog(folderOfTest())).ofTenant('acme')
    const lease = await createTurn(log, 'turn')
    const made = vi.spyOn(TenantKeys.prototype, 'of')
    for (const record of deltas('turn', 1, 600)) await appendTo(log, lease, 'events', [record])
    await appendTo(log, lease, 'processed', [{ seq: 1, data: message('turn', 'a', 'text') }])
    expect(made).not.toHaveBeenCalled()
    await endTurn(log, lease, { events: 601, processed: 2 })
    expect(made).toHaveBeenCalled()
    made.mockRestore()
  })
})

describe('maintenance of all tenants of an embedded store', () => {
  test('L10 L13 the sweeper removes expired turns of every tenant, also after a restart', async () => {
    const directory = folderOfTest()
    const clock = fakeClock(NOW)
    const options = { clock, retentionMs: RETENTION_MS, sweepMs: 100 }
    const log = await openLog(directory, options)
    const tenants = ['default', 'acme', 'beta']
    for (const tenant of tenants) await fill(log.ofTenant(tenant))
    await log.close()
    await clock.advance(RETENTION_MS)
    // It begins when the store is opened, and a close waits for the step that is under way.
    await (await openLog(directory, options)).close()
    expect(await endedOf(directory)).toEqual([
      'record acme done',
      'record beta done',
      'record done',
    ])
    // What is left of logs is that of the turns that are open.
    expect(await tablesOf(directory)).toMatchObject({ open: 3, processed: 3 })
    await clock.advance(RETENTION_MS * 4)
    await (await openLog(directory, options)).close()
    expect(await endedOf(directory)).toEqual([])
    const left = (await rowsOf(directory)).filter(([table]) => table === 'turns')
    expect(left.map(([, key]) => key)).toEqual(['acme left', 'beta left', 'left'])
  })

  test('L13 a compaction keeps every tenant', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    for (const tenant of ['default', 'acme']) await fill(log.ofTenant(tenant))
    const before = await log.ofTenant('acme').getTurn('done')
    await log.close()
    await compactEmbeddedLog(directory)
    const again = await openLog(directory)
    expect(await again.ofTenant('acme').getTurn('done')).toEqual(before)
    expect(await readEvents(again.ofTenant('acme'), 'left', 3)).toHaveLength(3)
    expect(await again.orphans(10)).toHaveLength(2)
  })

  test('L13 a failed commit is undone for its tenants only', async () => {
    const log = await openLog(folderOfTest())
    const [acme, beta] = [log.ofTenant('acme'), log.ofTenant('beta')]
    const kept = await createTurn(beta, 'turn')
    const commit = vi.spyOn(Environment.prototype, 'commit').mockRejectedValueOnce(new Error('no'))
    const failed = [createTurn(log, 'turn'), createTurn(acme, 'turn')]
    for (const each of failed) await expect(each).rejects.toMatchObject({ code: 'STORE_FAILED' })
    commit.mockRestore()
    expect(await acme.getTurn('turn')).toBeUndefined()
    await appendTo(beta, kept, 'events', deltas('turn', 1, 1))
    for (const each of [log, acme]) expect((await createTurn(each, 'turn')).epoch).toBe(1)
  })
})

/** What the sweeper has before it. */
async function endedOf(directory: string): Promise<string[]> {
  const rows = (await rowsOf(directory)).filter(([table]) => table === 'ended')
  return rows
    .map(([, key]) => (Array.isArray(key) ? `${String(key[0])} ${String(key[2])}` : ''))
    .toSorted()
}
