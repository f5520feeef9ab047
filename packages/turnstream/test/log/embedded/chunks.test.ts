import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { delta, deltas, eventsUpTo, eventText } from '../../../../conformance/src/turn-log/texts.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import {
  createTurn,
  endTurn,
  folderOfTest,
  LEASE_MS,
  openLog,
  readEvents,
  tablesOf,
} from './support.ts'

function withImage(image: string): string {
  const attachments = [{ type: 'image', media_type: 'image/png', data: image }]
  const final_item = { type: 'message', id: 'item', content: '', origin: 'user', attachments }
  const payload = { type: 'item_done', item_id: 'item', final_item }
  return eventText('turn', 1, payload)
}

async function textsOf(log: TurnLog, turnId: string, count: number): Promise<string[]> {
  return (await readEvents(log, turnId, count)).map(({ data }) => data)
}

describe('the chunks of events', () => {
  test.each([
    [1, []],
    [255, []],
    [256, [256]],
    [257, [256]],
    [512, [256, 256]],
    [513, [256, 256]],
  ])('%i events in single appends are stored in chunks of %j lines', async (count, sizes) => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const lease = await createTurn(log, 'turn')
    const records = deltas('turn', 1, count)
    const appends = records.map((record) => appendTo(log, lease, 'events', [record]))
    expect(await Promise.all(appends)).toEqual(records.map(({ seq }) => `1-${seq}`))
    const texts = records.map(({ data }) => data)
    expect(await textsOf(log, 'turn', count)).toEqual(texts)
    await log.close()
    const { chunks } = await tablesOf(directory)
    expect(chunks.map(({ lines }) => lines)).toEqual(sizes)
    const again = await openLog(directory)
    expect(await textsOf(again, 'turn', count)).toEqual(texts)
  })

  test('an event with large attachments is encoded, wrapped and stored in separate steps', async () => {
    const log = await openLog(folderOfTest())
    const lease = await createTurn(log, 'turn')
    const data = withImage('A'.repeat(16_000_000))
    const stringify = vi.spyOn(JSON, 'stringify')
    onTestFinished(() => stringify.mockRestore())
    /** How much was encoded in each iteration of the event loop. */
    const steps: number[] = []
    let isOver = false
    const count = () => {
      const chars = stringify.mock.results.map(({ value }) => String(value).length)
      stringify.mockClear()
      steps.push(chars.reduce((sum, each) => sum + each, 0))
      if (!isOver) setImmediate(count)
    }
    count()
    await appendTo(log, lease, 'events', [{ seq: 1, data }])
    isOver = true
    // How many steps the encoding takes depends on the machine. Joining, converting, wrapping and storing the line.
    expect(steps.slice(steps.findLastIndex((chars) => chars > 100_000)).length).toBeGreaterThan(4)
    expect(await textsOf(log, 'turn', 1)).toEqual([data])
  })

  test('a long line ends its chunk and is stored once, not in the journal', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const lease = await createTurn(log, 'turn')
    const texts = ['a', 'é'.repeat(5_000_000), 'b', 'c'].map((text, at) =>
      delta('turn', at + 1, text),
    )
    for (const [at, data] of texts.entries()) {
      await appendTo(log, lease, 'events', [{ seq: at + 1, data }])
    }
    expect(await textsOf(log, 'turn', 4)).toEqual(texts)
    await log.close()
    const { chunks, journal } = await tablesOf(directory)
    expect(chunks).toEqual([{ number: 1, first: 1, lines: 2 }])
    expect(journal.chars).toBeLessThan(2000)
    const again = await openLog(directory)
    expect(await textsOf(again, 'turn', 4)).toEqual(texts)
    const next = await again.claim('turn', 'test', LEASE_MS)
    expect(next.next.events).toBe(5)
    await endTurn(again, next, { events: 5, processed: 1 })
    expect((await textsOf(again, 'turn', 5)).slice(0, 4)).toEqual(texts)
  })

  test('a seal stores the lines of the open chunk and empties the journal', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const lease = await createTurn(log, 'turn')
    for (const record of deltas('turn', 1, 20)) await appendTo(log, lease, 'events', [record])
    await endTurn(log, lease, { events: 21, processed: 1 })
    await log.close()
    expect(await tablesOf(directory)).toEqual({
      chunks: [{ number: 1, first: 1, lines: 21 }],
      journal: { entries: 0, chars: 0 },
      open: 0,
      processed: 1,
    })
  })

  test('a chunk ends with its epoch, and offsets name the epoch that wrote them', async () => {
    const directory = folderOfTest()
    const clock = fakeClock()
    const log = await openLog(directory, { clock })
    let lease = await createTurn(log, 'turn')
    await appendTo(log, lease, 'events', deltas('turn', 1, 10))
    await clock.advance(LEASE_MS)
    lease = await log.claim('turn', 'second', LEASE_MS)
    await clock.advance(LEASE_MS)
    lease = await log.claim('turn', 'third', LEASE_MS)
    await appendTo(log, lease, 'events', deltas('turn', 11, 30))
    await endTurn(log, lease, { events: 31, processed: 1 })
    await log.close()
    const { chunks } = await tablesOf(directory)
    expect(chunks).toEqual([
      { number: 1, first: 1, lines: 10 },
      { number: 1, first: 11, lines: 21 },
    ])
    const again = await openLog(directory, { clock })
    const offsets = (await readEvents(again, 'turn', 31)).map(({ offset }) => offset)
    expect(offsets.slice(8, 12)).toEqual(['1-9', '1-10', '3-11', '3-12'])
  })

  test('concurrent turns do not mix', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const names = Array.from({ length: 40 }, (_, index) => `turn-${index}`)
    const leases = await Promise.all(names.map((name) => createTurn(log, name)))
    for (let seq = 1; seq <= 60; seq++) {
      await Promise.all(
        leases.map((lease) => appendTo(log, lease, 'events', deltas(lease.turnId, seq, seq))),
      )
    }
    await log.close()
    // One entry for each time that all of them wrote.
    expect((await tablesOf(directory)).journal.entries).toBeLessThan(80)
    const again = await openLog(directory)
    for (const name of names) {
      const expected = deltas(name, 1, 60).map(({ data }) => data)
      expect(await textsOf(again, name, 60)).toEqual(expected)
    }
  })

  test('a rejected append leaves nothing, and the next one is readable', async () => {
    const log = await openLog(folderOfTest())
    const lease = await createTurn(log, 'turn')
    await appendTo(log, lease, 'events', deltas('turn', 1, 3))
    const bad = [...deltas('turn', 4, 5), { seq: 6, data: '{"no":"envelope"}' }]
    await expect(appendTo(log, lease, 'events', bad)).rejects.toMatchObject({
      code: 'RECORD_INVALID',
    })
    await appendTo(log, lease, 'events', deltas('turn', 4, 8))
    const expected = deltas('turn', 1, 8).map(({ data }) => data)
    expect(await textsOf(log, 'turn', 8)).toEqual(expected)
  })

  test('readers get the same records live and from the store', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const lease = await createTurn(log, 'turn')
    const end = new AbortController()
    const read = async (count: number) => {
      const found: unknown[] = []
      for await (const record of log.tail('turn', 'events', '0-0', end.signal)) {
        if (found.push(record) === count) break
      }
      return found
    }
    const live = [read(600), read(600)]
    for (const record of deltas('turn', 1, 600)) await appendTo(log, lease, 'events', [record])
    const [first = [], second = []] = await Promise.all(live)
    expect(first).toHaveLength(600)
    expect(first.every((record, index) => record === second[index])).toBe(true)
    const [third, fourth] = await Promise.all([read(600), read(600)])
    expect(third).toEqual(first)
    expect(third.every((record, index) => record === fourth[index])).toBe(true)
  })

  test('a reader that joins during a commit gets its records once', async () => {
    const log = await openLog(folderOfTest())
    const lease = await createTurn(log, 'turn')
    await appendTo(log, lease, 'events', deltas('turn', 1, 250))
    const appends = deltas('turn', 251, 270).map((each) => appendTo(log, lease, 'events', [each]))
    const found = readEvents(log, 'turn', 270)
    await Promise.all(appends)
    expect((await found).map(({ offset }) => offset)).toEqual(
      Array.from({ length: 270 }, (_, index) => `1-${index + 1}`),
    )
  })

  test('incompressible text is returned unchanged', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const lease = await createTurn(log, 'turn')
    const odd = ['\n', '\ud800', '1,1,1', '👩‍🚀', '\u0000', '"', '{"']
    const records = odd.map((text, index) => ({
      seq: index + 1,
      data: delta('turn', index + 1, text),
    }))
    await appendTo(log, lease, 'events', records)
    await log.close()
    const again = await openLog(directory)
    expect(await textsOf(again, 'turn', odd.length)).toEqual(records.map(({ data }) => data))
  })

  test('a log whose last append repeats stored records is sealed', async () => {
    const directory = folderOfTest()
    const log = await openLog(directory)
    const lease = await createTurn(log, 'turn')
    const records = eventsUpTo('turn', 5)
    await appendTo(log, lease, 'events', records)
    expect(await appendTo(log, lease, 'events', records, { seal: true })).toBe('1-5')
    await log.close()
    const again = await openLog(directory)
    expect(await again.getTurn('turn')).toMatchObject({ status: 'complete', sealed: false })
    await expect(appendTo(again, lease, 'events', deltas('turn', 6, 6))).rejects.toMatchObject({
      code: 'LOG_SEALED',
    })
  })
})
