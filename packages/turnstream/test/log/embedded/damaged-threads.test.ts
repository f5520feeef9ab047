import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { DATA_FILE } from '../../../src/log/embedded/data-file.ts'
import { EmbeddedStore } from '../../../src/log/embedded/embedded-store.ts'
import { Environment } from '../../../src/log/embedded/environment.ts'
import {
  createTurn,
  type DamagedRecord,
  damageRecords,
  endTurn,
  folderOfTest,
  loseRecords,
  openLog,
} from './support.ts'

/** Three turns in the threads `one`, `two`, `two`. Damages some records while the store is closed. */
async function openDamaged(...records: readonly DamagedRecord[]): Promise<TurnLog> {
  return openAfter((directory) => damageRecords(directory, records))
}

async function openAfter(damage: (directory: string) => Promise<void>): Promise<TurnLog> {
  const directory = folderOfTest()
  const log = await openLog(directory)
  for (const [turnId, threadId] of [
    ['a', 'one'],
    ['b', 'two'],
    ['c', 'two'],
  ] as const) {
    await endTurn(log, await createTurn(log, turnId, { threadId }), { events: 1, processed: 1 })
  }
  await log.close()
  await damage(directory)
  return openLog(directory)
}

const DAMAGED = { code: 'STORE_CORRUPT' }

async function marks(log: TurnLog): Promise<string[]> {
  const { items } = await log.listThreads()
  return items.map(({ threadId, damaged }) => (damaged ? `${threadId}!` : threadId)).toSorted()
}

async function turnMarks(log: TurnLog): Promise<string[]> {
  const { items } = await log.listTurns('two')
  return items.map(({ turnId, damaged }) => (damaged ? `${turnId}!` : turnId))
}

test.each<{ name: string; records: DamagedRecord[] }>([
  { name: 'record', records: [['threads', 'two']] },
  {
    name: 'record and turn',
    records: [
      ['threads', 'two'],
      ['turns', 'b'],
    ],
  },
  {
    name: 'record and place of a turn',
    records: [
      ['threads', 'two'],
      ['threadTurns', 'two'],
    ],
  },
])('a thread with a damaged $name is listed as such, and can be deleted', async ({ records }) => {
  const log = await openDamaged(...records)
  expect(await marks(log)).toEqual(['one', 'two!'])
  await expect(log.getThread('two')).rejects.toMatchObject(DAMAGED)
  expect(await log.deleteThread('two')).toBe(true)
  expect(await log.getThread('two')).toBeUndefined()
  expect(await marks(log)).toEqual(['one'])
  expect(await log.listTurns('two')).toEqual({ items: [] })
  expect(await log.deleteThread('two')).toBe(false)
  await createTurn(log, 'c', { threadId: 'two' })
  expect(await marks(log)).toEqual(['one', 'two'])
})

test('a damaged thread can be put again, and keeps its turns', async () => {
  const log = await openDamaged(['threads', 'two'])
  await log.putThread({ threadId: 'two', title: 'Again' }, null)
  expect(await marks(log)).toEqual(['one', 'two'])
  expect(await log.getThread('two')).toMatchObject({ title: 'Again' })
  expect(await turnMarks(log)).toEqual(['b', 'c'])
})

test('a new turn of a damaged thread creates the thread again', async () => {
  const log = await openDamaged(['threads', 'two'])
  await createTurn(log, 'd', { threadId: 'two', threadTitle: 'Again' })
  expect(await marks(log)).toEqual(['one', 'two'])
  expect(await turnMarks(log)).toEqual(['b', 'c', 'd'])
  expect(await log.getTurn('d')).toMatchObject({ ordinal: 3 })
})

test('a damaged turn is listed as such, can be deleted, and its id used again', async () => {
  const log = await openDamaged(['turns', 'b'])
  expect(await turnMarks(log)).toEqual(['b!', 'c'])
  await expect(log.getTurn('b')).rejects.toMatchObject(DAMAGED)
  expect(await log.deleteTurn('b')).toBe(true)
  expect(await turnMarks(log)).toEqual(['c'])
  await createTurn(log, 'b', { threadId: 'two' })
  expect(await turnMarks(log)).toEqual(['c', 'b'])
})

test('a damaged place of a turn is listed as an unreadable turn', async () => {
  const log = await openDamaged(['threadTurns', 'two'])
  expect(await turnMarks(log)).toEqual(['unreadable-1!', 'c'])
  const newest = await log.listTurns('two', { first: 'newest', limit: 1 })
  expect(newest.items.map(({ turnId }) => turnId)).toEqual(['c'])
  const older = await log.listTurns('two', { first: 'newest', cursor: newest.nextCursor ?? '' })
  expect(older.items).toMatchObject([{ ordinal: 1, damaged: true }])
})

test('a store opens after a damaged open turn was deleted', async () => {
  const directory = folderOfTest()
  const log = await openLog(directory)
  await createTurn(log, 'open', { threadId: 'two' })
  await log.close()
  await damageRecords(directory, [['turns', 'open']])
  const damaged = await openLog(directory)
  expect(await turnMarks(damaged)).toEqual(['open!'])
  expect(await damaged.deleteTurn('open')).toBe(true)
  await damaged.close()
  const env = await Environment.open(join(directory, DATA_FILE), 'system')
  expect(env.tables.open.entryCount).toBe(0)
  await env.close()
  expect(await turnMarks(await openLog(directory))).toEqual([])
})

test('a store opens with a damaged count of turns, and reuses no number', async () => {
  const log = await openDamaged(['store', 'nextNumber'], ['turns', 'c'])
  expect(await marks(log)).toEqual(['one', 'two'])
  await endTurn(log, await createTurn(log, 'd', { threadId: 'two' }), { events: 1, processed: 1 })
  expect(await turnMarks(log)).toEqual(['b', 'c!', 'd'])
  for (const turnId of ['a', 'b', 'd']) {
    expect((await log.snapshot(turnId)).records).toHaveLength(1)
    expect(await log.deleteTurn(turnId)).toBe(true)
  }
})

test('a store opens with a damaged index of its open turns', async () => {
  const directory = folderOfTest()
  const log = await openLog(directory)
  await createTurn(log, 'a', { threadId: 'one' })
  await createTurn(log, 'b', { threadId: 'two' })
  await log.close()
  await damageRecords(directory, [
    ['open', 1],
    ['open', 2],
    ['turns', 'b'],
  ])
  const damaged = await openLog(directory)
  expect(await turnMarks(damaged)).toEqual(['b!'])
  // It still runs, so its end will be noticed.
  await expect(createTurn(damaged, 'c', { threadId: 'one' })).rejects.toMatchObject({
    code: 'THREAD_BUSY',
  })
})

test('a turn whose record was lost is listed as damaged, and goes with its thread', async () => {
  const log = await openAfter((directory) => loseRecords(directory, [['turns', 'c']]))
  expect(await turnMarks(log)).toEqual(['b', 'c!'])
  expect(await log.deleteThread('two')).toBe(true)
  await createTurn(log, 'd', { threadId: 'two' })
  expect(await turnMarks(log)).toEqual(['d'])
})

test('a thread whose record was lost is listed as damaged, and can be deleted', async () => {
  const log = await openAfter((directory) => loseRecords(directory, [['threads', 'two']]))
  expect(await marks(log)).toEqual(['one', 'two!'])
  await expect(log.getThread('two')).rejects.toMatchObject(DAMAGED)
  expect(await log.deleteThread('two')).toBe(true)
  expect(await marks(log)).toEqual(['one'])
  expect(await log.getThread('two')).toBeUndefined()
})

test('a new turn of a thread whose record was lost follows the others', async () => {
  const log = await openAfter((directory) => loseRecords(directory, [['threads', 'two']]))
  await createTurn(log, 'd', { threadId: 'two' })
  expect(await marks(log)).toEqual(['one', 'two'])
  expect(await turnMarks(log)).toEqual(['b', 'c', 'd'])
})

test('a store that lost an open turn is refused, but can be opened to save the others', async () => {
  const directory = folderOfTest()
  const log = await openLog(directory)
  await createTurn(log, 'a', { threadId: 'two' })
  await log.close()
  await loseRecords(directory, [['turns', 'a']])
  await expect(openLog(directory)).rejects.toMatchObject(DAMAGED)
  const reported: string[] = []
  const store = await EmbeddedStore.open({ directory }, ({ message }) => reported.push(message))
  await store.close()
  expect(reported).toEqual([expect.stringContaining('turn a is missing')])
})
