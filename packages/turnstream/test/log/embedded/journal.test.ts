import { describe, expect, test } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { delta, deltas } from '../../../../conformance/src/turn-log/texts.ts'
import { createTurn, folderOfTest, openLog, readEvents, tablesOf } from './support.ts'

const BOUND_CHARS = 4 * 1024 * 1024
const LARGE = 'x'.repeat(64 * 1024)

describe('the journal', () => {
  test('does not exceed its bound because of an idle turn', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const quiet = await createTurn(log, 'quiet')
    const busy = await createTurn(log, 'busy')
    await appendTo(log, quiet, 'events', deltas('quiet', 1, 3))
    for (let seq = 1; seq <= 200; seq++) {
      await appendTo(log, busy, 'events', [{ seq, data: delta('busy', seq, LARGE) }])
    }
    await log.close()
    const { journal, chunks } = await tablesOf(directory)
    expect(journal.chars).toBeLessThan(BOUND_CHARS + 2 * LARGE.length)
    // Its three lines were stored before their chunk was complete.
    expect(chunks).toContainEqual({ number: 1, first: 1, lines: 3 })
  })

  test('stores an early stored chunk again as it grows', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const quiet = await createTurn(log, 'quiet')
    const busy = await createTurn(log, 'busy')
    let written = 0
    for (let round = 1; round <= 3; round++) {
      await appendTo(log, quiet, 'events', deltas('quiet', round * 2 - 1, round * 2))
      for (let more = 0; more < 80; more++) {
        written += 1
        await appendTo(log, busy, 'events', [{ seq: written, data: delta('busy', written, LARGE) }])
      }
    }
    const expected = deltas('quiet', 1, 6).map(({ data }) => data)
    expect((await readEvents(log, 'quiet', 6)).map(({ data }) => data)).toEqual(expected)
    await log.close()
    const { chunks } = await tablesOf(directory)
    expect(chunks.filter(({ number }) => number === 1)).toHaveLength(1)
    const again = await openLog(directory)
    expect((await readEvents(again, 'quiet', 6)).map(({ data }) => data)).toEqual(expected)
    await appendTo(again, quiet, 'events', deltas('quiet', 7, 200))
    await appendTo(again, quiet, 'events', deltas('quiet', 201, 300))
    expect(await readEvents(again, 'quiet', 300)).toHaveLength(300)
    expect(await readEvents(again, 'busy', written)).toHaveLength(written)
  })

  test('does not exceed its bound because of many small commits', { timeout: 60_000 }, async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const quiet = await createTurn(log, 'quiet')
    const busy = await createTurn(log, 'busy')
    await appendTo(log, quiet, 'events', deltas('quiet', 1, 1))
    for (let seq = 1; seq <= 4500; seq++)
      await appendTo(log, busy, 'events', deltas('busy', seq, seq))
    await log.close()
    expect((await tablesOf(directory)).journal.entries).toBeLessThan(4096)
  })

  test('is empty after the store was reopened', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const lease = await createTurn(log, 'turn')
    await appendTo(log, lease, 'events', deltas('turn', 1, 5))
    await log.close()
    expect((await tablesOf(directory)).journal.entries).toBe(1)
    const again = await openLog(directory)
    await again.close()
    const { journal, chunks } = await tablesOf(directory)
    expect(journal.entries).toBe(0)
    expect(chunks).toEqual([{ number: 1, first: 1, lines: 5 }])
  })

  test('ignores the lines of a deleted turn', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const lost = await createTurn(log, 'lost')
    const kept = await createTurn(log, 'kept')
    await Promise.all([
      appendTo(log, lost, 'events', deltas('lost', 1, 5)),
      appendTo(log, kept, 'events', deltas('kept', 1, 5)),
    ])
    await log.deleteTurn('lost')
    await createTurn(log, 'lost')
    await log.close()
    const again = await openLog(directory)
    expect(await readEvents(again, 'kept', 5)).toHaveLength(5)
    expect((await again.snapshot('lost')).records).toEqual([])
    const lease = await again.claim('lost', 'test', 1000)
    expect(lease.next).toEqual({ events: 1, processed: 1 })
  })
})
