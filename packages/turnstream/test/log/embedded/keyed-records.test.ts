import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { eventually } from '../../../../../test/eventually.ts'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { TurnstreamError } from '../../../../core/src/index.ts'
import { DATA_FILE } from '../../../src/log/embedded/data-file.ts'
import { Environment } from '../../../src/log/embedded/environment.ts'
import { answerApproval } from '../../../src/turns/approvals.ts'
import { StoreProcess } from './process.ts'
import { folderOfTest, openLog } from './support.ts'

const TTL_MS = 1000
const SWEEP_MS = 100

/** How many records and index entries of keyed records are left. */
async function rowsOf(directory: string) {
  const env = await Environment.open(join(directory, DATA_FILE), 'system')
  const { store, ended } = env.tables
  const records = [...store.getKeys({})].filter((key) => String(key).startsWith('note ')).length
  const rows = { records, index: ended.entryCount }
  await env.close()
  return rows
}

/** Stores text that is not JSON under a key. */
async function damage(directory: string, key: string): Promise<void> {
  const env = await Environment.open(join(directory, DATA_FILE), 'system')
  await env.commit([{ table: env.tables.store, key: `note ${key}`, value: 'no list' }])
  await env.close()
}

function storeOptions(clock = fakeClock(), onError = (_error: unknown) => {}) {
  return { clock, sweepMs: SWEEP_MS, onError }
}

describe('keyed records in the embedded store', () => {
  test('are swept a few per commit, and nothing is left of them', async () => {
    const directory = folderOfTest()
    const clock = fakeClock()
    const log = await openLog(directory, storeOptions(clock))
    const adds = Array.from({ length: 450 }, (_, at) =>
      (at % 2 === 0 ? log : log.ofTenant('acme')).keyedRecords.add(`key-${at}`, 'value', TTL_MS),
    )
    await Promise.all([...adds, log.keyedRecords.add('long', 'value', 100 * TTL_MS)])
    const commit = vi.spyOn(Environment.prototype, 'commit')
    await clock.advance(TTL_MS + SWEEP_MS)
    await eventually(() => {
      const sizes = commit.mock.calls.map(([writes]) => writes.length)
      expect(sizes).toEqual([200, 200, 200, 200, 100])
    })
    await log.close()
    expect(await rowsOf(directory)).toEqual({ records: 1, index: 1 })
  })

  test('leave one record and one index entry per key, and none when all are consumed', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    for (let at = 0; at < 30; at++) await log.keyedRecords.add('key', `${at}`, TTL_MS * 1000 - at)
    await Promise.all([1, 2, 3].map(() => log.keyedRecords.add('taken', 'value', TTL_MS * 1000)))
    await Promise.all([1, 2, 3].map(() => log.keyedRecords.consume('taken')))
    await log.close()
    expect(await rowsOf(directory)).toEqual({ records: 1, index: 1 })
  })

  test('that are added while the key is swept stay', async () => {
    const directory = folderOfTest()
    const clock = fakeClock()
    const log = await openLog(directory, storeOptions(clock))
    await log.keyedRecords.add('key', 'old', TTL_MS)
    const [added] = await Promise.all([
      clock.advance(TTL_MS).then(() => log.keyedRecords.add('key', 'new', 10 * TTL_MS)),
      clock.advance(TTL_MS + SWEEP_MS),
    ])
    expect(added).toBeUndefined()
    await clock.advance(SWEEP_MS)
    expect(await log.keyedRecords.read(['key'])).toEqual(['new'])
    await log.close()
    expect(await rowsOf(directory)).toEqual({ records: 1, index: 1 })
  })

  test('are unchanged by a failed commit, which is reported', async () => {
    const log = await openLog(folderOfTest())
    await log.keyedRecords.add('key', 'value', TTL_MS * 1000)
    const commit = vi.spyOn(Environment.prototype, 'commit')
    commit.mockRejectedValueOnce(new TurnstreamError('STORE_FULL', 'made up'))
    const calls = [
      log.keyedRecords.consume('key'),
      log.keyedRecords.consume('key'),
      log.keyedRecords.add('other', 'x', TTL_MS),
    ]
    for (const call of calls) await expect(call).rejects.toMatchObject({ code: 'STORE_FULL' })
    expect(await log.keyedRecords.read(['key', 'other'])).toEqual(['value', undefined])
    expect(await log.keyedRecords.consume('key')).toBe('value')
  })

  test('that are not stored yet are not read', async () => {
    const log = await openLog(folderOfTest())
    const adding = log.keyedRecords.add('key', 'value', TTL_MS * 1000)
    expect(await log.keyedRecords.read(['key'])).toEqual([undefined])
    await adding
    expect(await log.keyedRecords.read(['key'])).toEqual(['value'])
  })

  test('with a malformed record are STORE_CORRUPT until it expires, and harm no others', async () => {
    const directory = folderOfTest()
    const clock = fakeClock()
    const first = await openLog(directory, storeOptions(clock))
    for (const key of ['bad', 'good']) await first.keyedRecords.add(key, 'value', TTL_MS)
    await first.close()
    await damage(directory, 'bad')
    const errors: unknown[] = []
    const log = await openLog(
      directory,
      storeOptions(clock, (error) => errors.push(error)),
    )
    await expect(log.keyedRecords.read(['bad'])).rejects.toMatchObject({ code: 'STORE_CORRUPT' })
    await expect(log.keyedRecords.consume('bad')).rejects.toMatchObject({ code: 'STORE_CORRUPT' })
    expect(await log.keyedRecords.consume('good')).toBe('value')
    await clock.advance(TTL_MS + SWEEP_MS)
    await eventually(async () => expect(await log.keyedRecords.read(['bad'])).toEqual([undefined]))
    expect(errors).toMatchObject([{ code: 'STORE_CORRUPT' }])
  })

  test('of a turn are the answers to approvals that an earlier version stored', async () => {
    const directory = folderOfTest()
    const first = await openLog(directory)
    await first.create({ turnId: 'turn', threadId: 'thread', owner: 'owner' }, TTL_MS)
    await first.close()
    const env = await Environment.open(join(directory, DATA_FILE), 'system')
    const { turns } = env.tables
    const { values: _, ...stored } = JSON.parse(turns.get('turn') ?? '') as { values?: unknown }
    const answer = { approved: false, reason: 'no', by: 'ops', at: 7 }
    const value = JSON.stringify({ ...stored, approvals: [['approval-1', answer]] })
    await env.commit([{ table: turns, key: 'turn', value }])
    await env.close()
    const log = await openLog(directory)
    const late = await answerApproval(log, 'turn', 'approval-1', { approved: true, at: 8 })
    expect(late).toEqual({ stored: false, answer })
    await log.keyedRecords.addOnce('turn', 'other', 'value')
    await log.close()
    const again = await openLog(directory)
    expect(await again.keyedRecords.find('turn', 'approval-1')).toBe(JSON.stringify(answer))
    expect(await again.keyedRecords.find('turn', 'other')).toBe('value')
  })

  test('survive kill -9 once acknowledged, and consumed ones do not return', async () => {
    const directory = folderOfTest()
    const child = new StoreProcess('note', directory)
    await child.until(({ turnId, seq = 0 }) => turnId === 'taken' && seq >= 20)
    await child.kill()
    const log = await openLog(directory)
    const added = Number(await log.keyedRecords.consume('added')) - child.acknowledged('added')
    expect([0, 1]).toContain(added)
    const left = await log.keyedRecords.consume('taken')
    if (left !== undefined) expect(Number(left)).toBe(child.acknowledged('taken') + 1)
    expect(await log.keyedRecords.consume('taken')).toBeUndefined()
  })
})
