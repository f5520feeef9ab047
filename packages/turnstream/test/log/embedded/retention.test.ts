import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { eventually } from '../../../../../test/eventually.ts'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { deltas, message } from '../../../../conformance/src/turn-log/texts.ts'
import type { NewTurn } from '../../../../core/src/log/turn-log.ts'
import { DATA_FILE } from '../../../src/log/embedded/data-file.ts'
import { Environment } from '../../../src/log/embedded/environment.ts'
import { createTurn, endTurn, folderOfTest, openLog, tablesOf } from './support.ts'

const RETENTION_MS = 1000
const SWEEP_MS = 100

async function endedTurns(
  directory: string,
  count: number,
  clock = fakeClock(),
  more: Partial<NewTurn> = {},
) {
  const log = await openLog(directory, { clock, retentionMs: RETENTION_MS, sweepMs: SWEEP_MS })
  const made = Array.from({ length: count }, async (_, index) => {
    const lease = await createTurn(log, `turn-${index}`, more)
    await appendTo(log, lease, 'events', deltas(`turn-${index}`, 1, 10))
    await appendTo(log, lease, 'processed', [
      { seq: 1, data: message(`turn-${index}`, 'a', 'text '.repeat(1000)) },
    ])
    await endTurn(log, lease, { events: 11, processed: 2 })
  })
  await Promise.all(made)
  return { log, clock }
}

/** How much is left in the tables of turns and threads. */
async function rowsOf(directory: string) {
  const env = await Environment.open(join(directory, DATA_FILE), 'system')
  const { turns, threads, threadTurns, recency, ended } = env.tables
  const tables = { turns, threads, threadTurns, recency, ended }
  const counts = Object.entries(tables).map(([name, table]) => [name, table.entryCount])
  await env.close()
  return Object.fromEntries(counts)
}

describe('the sweeper', () => {
  test('removes logs, and later records, a few turns per commit', async () => {
    const directory = folderOfTest()
    const { log, clock } = await endedTurns(directory, 100)
    const commit = vi.spyOn(Environment.prototype, 'commit')
    await clock.advance(RETENTION_MS + SWEEP_MS)
    await eventually(() => expect(commit.mock.calls.length).toBeGreaterThan(6))
    const largest = Math.max(...commit.mock.calls.map(([writes]) => writes.length))
    expect(largest).toBeLessThan(200)
    expect(await log.getTurn('turn-1')).toMatchObject({ expired: true, status: 'complete' })
    await log.close()
    expect(await tablesOf(directory)).toMatchObject({ chunks: [], processed: 0 })
    const again = await openLog(directory, { clock, retentionMs: RETENTION_MS, sweepMs: SWEEP_MS })
    expect(await again.getTurn('turn-1')).toMatchObject({ expired: true })
    await clock.advance(RETENTION_MS * 3)
    await eventually(async () => {
      await clock.advance(SWEEP_MS)
      expect(await again.listTurns('thread-of-turn-99')).toEqual({ items: [] })
      expect(await again.storedBytes()).toBeLessThan(80_000)
    })
    expect(await again.getTurn('turn-1')).toBeUndefined()
    expect(await again.getThread('thread-of-turn-1')).toBeUndefined()
  })

  test('removes what expired while the store was closed', async () => {
    const directory = folderOfTest()
    const { log, clock } = await endedTurns(directory, 40)
    const kept = await log.storedBytes()
    await log.close()
    await clock.advance(RETENTION_MS * 2)
    const again = await openLog(directory, { clock, retentionMs: RETENTION_MS, sweepMs: SWEEP_MS })
    // Whoever asks before that hears the same.
    expect(await again.getTurn('turn-3')).toMatchObject({ expired: true })
    await expect(again.snapshot('turn-3')).rejects.toMatchObject({ code: 'TURN_EXPIRED' })
    await eventually(async () => expect(await again.storedBytes()).toBeLessThan(kept / 2))
  })

  test('continues after a failed commit', async () => {
    const directory = folderOfTest()
    const { log, clock } = await endedTurns(directory, 20)
    const kept = await log.storedBytes()
    const commit = vi.spyOn(Environment.prototype, 'commit').mockRejectedValueOnce(new Error('no'))
    await clock.advance(RETENTION_MS + SWEEP_MS)
    await eventually(() => expect(commit).toHaveBeenCalled())
    await eventually(async () => {
      await clock.advance(SWEEP_MS)
      expect(await log.storedBytes()).toBeLessThan(kept)
      expect(await log.getTurn('turn-1')).toMatchObject({ expired: true })
    })
  })

  test('skips and reports an unreadable record and removes the others', async () => {
    const directory = folderOfTest()
    const { log, clock } = await endedTurns(directory, 40)
    await log.putThread({ threadId: 'damaged' })
    await log.putThread({ threadId: 'empty' })
    await log.close()
    const env = await Environment.open(join(directory, DATA_FILE), 'system')
    const { turns, threads } = env.tables
    const damaged = [
      { table: turns, key: 'turn-0', value: '{' },
      { table: turns, key: 'turn-7', value: '{}' },
      { table: threads, key: 'damaged', value: '{' },
    ]
    await env.commit(damaged)
    await env.close()
    const reported: unknown[] = []
    const onError = (error: unknown) => reported.push(error)
    const options = { clock, retentionMs: RETENTION_MS, sweepMs: SWEEP_MS, onError }
    const again = await openLog(directory, options)
    await clock.advance(RETENTION_MS * 1.2)
    await eventually(async () => {
      await clock.advance(SWEEP_MS)
      expect(await again.getTurn('turn-39')).toMatchObject({ expired: true })
      expect(reported.length).toBeGreaterThanOrEqual(3)
    })
    for (const error of reported) expect(error).toMatchObject({ code: 'STORE_CORRUPT' })
    await clock.advance(RETENTION_MS * 5)
    await eventually(async () => {
      await clock.advance(SWEEP_MS)
      expect(await again.countThreads()).toBe(0)
    })
    await again.close()
    expect(await rowsOf(directory)).toEqual({
      turns: 0,
      threads: 0,
      threadTurns: 0,
      recency: 0,
      ended: 0,
    })
  })

  test('removes many turns and threads in short steps', async () => {
    const directory = folderOfTest()
    const { log, clock } = await endedTurns(directory, 400)
    const idle = log.ofTenant('idle')
    const ids = Array.from({ length: 600 }, (_, index) => `thread-${index}`)
    for (const each of [log, idle])
      await Promise.all(ids.map((threadId) => each.putThread({ threadId })))
    const commit = vi.spyOn(Environment.prototype, 'commit')
    const removed = () =>
      commit.mock.calls.flatMap(([writes]) =>
        writes.filter(({ key, value }) => value === undefined && /^turn-\d+$/.test(String(key))),
      ).length
    await clock.advance(RETENTION_MS * 6)
    await vi.waitFor(async () => {
      await clock.advance(SWEEP_MS)
      expect([await log.countThreads(), await idle.countThreads()]).toEqual([0, 0])
      expect(removed()).toBe(400)
    }, 10_000)
    expect(Math.max(...commit.mock.calls.map(([writes]) => writes.length))).toBeLessThan(600)
    await log.close()
    expect(await rowsOf(directory)).toEqual({
      turns: 0,
      threads: 0,
      threadTurns: 0,
      recency: 0,
      ended: 0,
    })
  })

  test('ends active readers', async () => {
    const { log, clock } = await endedTurns(folderOfTest(), 1)
    const tail = log.tail('turn-0', 'events', '0-0', new AbortController().signal)
    const reader = tail[Symbol.asyncIterator]()
    await reader.next()
    await clock.advance(RETENTION_MS + SWEEP_MS)
    const rest = async () => {
      for (;;) {
        await clock.advance(SWEEP_MS)
        if ((await reader.next()).done === true) return 'ended'
      }
    }
    // What it had in hand it may still get; then it ends, as the sealed log does.
    expect(await rest()).toBe('ended')
  })
})

describe('content with a limit', () => {
  const CONTENT_MS = 300
  const BRIEF = { contentMs: CONTENT_MS }

  test('is removed a few turns per commit, and the records with the retention', async () => {
    const directory = folderOfTest()
    const { log, clock } = await endedTurns(directory, 400, fakeClock(), BRIEF)
    const commit = vi.spyOn(Environment.prototype, 'commit')
    const removed = (pattern: RegExp) =>
      commit.mock.calls.flatMap(([writes]) =>
        writes.filter(({ key, value }) => value === undefined && pattern.test(String(key))),
      ).length
    await clock.advance(CONTENT_MS + SWEEP_MS)
    await eventually(() => expect(removed(/^content,/)).toBe(400))
    await log.close()
    expect(Math.max(...commit.mock.calls.map(([writes]) => writes.length))).toBeLessThan(200)
    expect(await tablesOf(directory)).toMatchObject({ chunks: [], processed: 0 })
    expect(await rowsOf(directory)).toMatchObject({ turns: 400, ended: 400 })
    const again = await openLog(directory, { clock, retentionMs: RETENTION_MS, sweepMs: SWEEP_MS })
    expect(await again.getTurn('turn-7')).toMatchObject({ expired: true, ...BRIEF })
    await clock.advance(RETENTION_MS * 6)
    await eventually(async () => {
      await clock.advance(SWEEP_MS)
      expect(await again.countThreads()).toBe(0)
      expect(removed(/^turn-\d+$/)).toBe(400)
    })
    await again.close()
    const nothing = { turns: 0, threads: 0, threadTurns: 0, recency: 0, ended: 0 }
    expect(await rowsOf(directory)).toEqual(nothing)
  })

  test('that is deleted leaves no entry in the index', async () => {
    const directory = folderOfTest()
    const { log } = await endedTurns(directory, 2, fakeClock(), BRIEF)
    await log.deleteTurn('turn-0')
    await log.deleteThread('thread-of-turn-1')
    await log.close()
    expect(await rowsOf(directory)).toMatchObject({ turns: 0, ended: 0 })
  })

  test.each([-3_600_000, 3_600_000])('keeps its time when the clock steps by %d ms', async (ms) => {
    const clock = fakeClock(10_000_000)
    const { log } = await endedTurns(folderOfTest(), 1, clock, BRIEF)
    const isExpired = async (turnId: string) => (await log.getTurn(turnId))?.expired
    // Only backwards: the retention itself follows the time of day.
    if (ms < 0) clock.step(ms)
    await clock.advance(CONTENT_MS - 1)
    expect(await isExpired('turn-0')).toBe(false)
    await clock.advance(1)
    expect(await isExpired('turn-0')).toBe(true)
    clock.step(ms)
    const lease = await createTurn(log, 'later', BRIEF)
    await endTurn(log, lease, { events: 1, processed: 1 })
    await clock.advance(CONTENT_MS - 1)
    expect(await isExpired('later')).toBe(false)
    await clock.advance(1)
    expect(await isExpired('later')).toBe(true)
  })
})
