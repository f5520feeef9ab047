import { LOG_NAMES } from '@turnstream/core/internal/log/turn-log'
import { equal, rejects } from './assert.ts'
import { type Cases, nextOf, ofEachLog, offsets, START, soon, texts } from './given.ts'
import { delta, deltas, eventsUpTo, eventText, outputsOf, SIX, STATE } from './texts.ts'

const MANY_ITEMS = Array.from({ length: 58 }, (_, index) => String.fromCharCode(0x41 + index))

export const appendCases: Cases = {
  ...ofEachLog({
    'L2 records get consecutive offsets, starting where the lease starts': async (given, name) => {
      const lease = await given.create('turn')
      await given.append(lease, name, SIX[name].slice(0, 1))
      await given.append(lease, name, SIX[name].slice(1, 4))
      equal(offsets(await given.take('turn', name, 4)), ['1-1', '1-2', '1-3', '1-4'], 'offsets')
    },
    'L3 a record is visible everywhere once its flush resolves': async (given, name) => {
      const lease = await given.create('turn')
      const logs = [given.log, await given.elsewhere()]
      const allFrom = (after: string) =>
        logs.map((log) => {
          const tail = log.tail('turn', name, after, given.signal)
          return soon(nextOf(tail[Symbol.asyncIterator]()))
        })
      let after = START
      let waiting = allFrom(after)
      for (const record of SIX[name].slice(0, 4)) {
        const offset = await given.append(lease, name, [record])
        // For a log that lags behind, its own offset would be foreign.
        const next = allFrom(offset)
        for (const seen of await Promise.all([...waiting, ...allFrom(after)])) {
          equal([seen.offset, seen.data], [offset, record.data], 'what a reader sees')
        }
        after = offset
        waiting = next
      }
    },
    'L3 a repeated append changes nothing, even from another writer': async (given, name) => {
      const lease = await given.create('turn')
      const append = (from: number, to: number, seal = false) =>
        given.append(lease, name, SIX[name].slice(from, to), { seal })
      await append(0, 3)
      await append(0, 3)
      await append(0, 1)
      // Starts with records that are already stored.
      await append(1, 5)
      await append(3, 6, true)
      await append(3, 6, true)
      await append(0, 2)
      equal(texts(await given.read('turn', name)), STATE[name], 'the log')
    },
    'L3 a gap is LOG_SEQUENCE_GAP, and no record after it is stored': async (given, name) => {
      const lease = await given.create('turn')
      const refused = (from: number, to: number) => {
        const append = given.append(lease, name, SIX[name].slice(from, to))
        return rejects(append, 'LOG_SEQUENCE_GAP', 'a gap')
      }
      await refused(1, 2)
      await given.append(lease, name, SIX[name].slice(0, 1))
      await refused(2, 4)
      await refused(5, 6)
      await given.append(lease, name, SIX[name].slice(1), { seal: true })
      equal(texts(await given.read('turn', name)), STATE[name], 'the log')
    },
    'L4 a sealed log rejects new records, and the other log stays open': async (given, name) => {
      const lease = await given.create('turn')
      await given.append(lease, name, SIX[name], { seal: true })
      const more = [{ seq: 7, data: SIX[name][1]?.data ?? '' }]
      const last = name === 'events' ? eventsUpTo('turn', 7, 7) : more
      await rejects(given.append(lease, name, more), 'LOG_SEALED', 'another record')
      const seal = given.append(lease, name, last, { seal: true })
      await rejects(seal, 'LOG_SEALED', 'another last record')
      equal((await given.log.getTurn('turn'))?.sealed, false, 'sealed')
      const other = name === 'events' ? 'processed' : 'events'
      await given.append(lease, other, SIX[other], { seal: true })
      equal((await given.log.getTurn('turn'))?.sealed, true, 'sealed')
      equal(texts(await given.read('turn', name)), STATE[name], 'the log')
    },
    'L3 the flush of an unused writer resolves and changes nothing': async (given, name) => {
      const lease = await given.create('turn')
      const idle = async () => {
        const writer = given.log.open(lease, name)
        await writer.flush()
        await writer.room()
        equal([writer.waiting, writer.stalledMs], [0, 0], 'what waits')
        writer.close()
      }
      await idle()
      await given.append(lease, name, SIX[name].slice(0, 2))
      await idle()
      await given.append(lease, name, SIX[name].slice(2), { seal: true })
      await idle()
      equal(texts(await given.read('turn', name)), STATE[name], 'the log')
    },
    'L4 sealing with an earlier record than the last is RECORD_INVALID': async (given, name) => {
      const lease = await given.create('turn')
      const records = SIX[name].slice(0, 3)
      await given.append(lease, name, records)
      const earlier = name === 'events' ? eventsUpTo('turn', 2, 2) : records.slice(1, 2)
      const seal = given.append(lease, name, earlier, { seal: true })
      await rejects(seal, 'RECORD_INVALID', 'a seal with the second of three records')
      await given.append(lease, name, SIX[name].slice(3), { seal: true })
      equal(texts(await given.read('turn', name)), STATE[name], 'the log')
    },
    'L3 a writer with an invalid first seq is OPTION_INVALID': async (given, name) => {
      const lease = await given.create('turn')
      for (const next of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
        const opened = (async () => given.log.open(lease, name, { next }))()
        await rejects(opened, 'OPTION_INVALID', `next ${next}`)
      }
      await given.append(lease, name, SIX[name], { seal: true })
      equal(texts(await given.read('turn', name)), STATE[name], 'the log')
    },
    'L3 appends take effect in call order without being awaited': async (given, name) => {
      const lease = await given.create('turn')
      const records =
        name === 'events' ? eventsUpTo('turn', 60) : outputsOf('turn', MANY_ITEMS.join(''))
      const appends = records.map((record) =>
        soon(given.append(lease, name, [record], { seal: record.seq === 60 })),
      )
      await Promise.all(appends)
      equal(texts(await given.read('turn', name)), texts(records), 'the records')
    },
    'L8 a reader that does not read delays no append': async (given, name) => {
      const lease = await given.create('turn')
      const iterator = given.iterate('turn', name)
      const all = name === 'events' ? deltas('turn', 1, 300) : outputsOf('turn', 'ab'.repeat(150))
      await given.append(lease, name, all.slice(0, 1))
      await iterator.next()
      for (const record of all.slice(1)) await given.append(lease, name, [record])
      await iterator.return?.()
    },
  }),
  'L4 a reader that sees the last record of a log finds the log sealed': async (given) => {
    const lease = await given.create('turn')
    for (const name of LOG_NAMES) {
      await given.append(lease, name, SIX[name].slice(0, 5))
      const last = given.tail('turn', name, '1-5')[Symbol.asyncIterator]()
      const seen = soon(nextOf(last))
      const append = soon(given.append(lease, name, SIX[name].slice(5), { seal: true }))
      await seen
      const { status, sealed } = (await given.log.getTurn('turn')) ?? {}
      equal([status, sealed], ['complete', name === 'processed'], `the record with ${name} read`)
      equal((await last.next()).done, true, 'the end')
      await append
    }
  },
  'L4 sealing events with a non-terminal event is RECORD_INVALID': async (given) => {
    const lease = await given.create('turn')
    const wrong = [
      delta('turn', 2, 'not the end'),
      eventText('turn', 2, { type: 'usage_update' }),
      eventText('turn', 2, { type: 'response_done' }),
      eventText('turn', 2, { type: 'vendor_done' }),
      '{"event_id":"e","timestamp":1}',
    ]
    for (const data of wrong) {
      const records = [
        { seq: 1, data: delta('turn', 1) },
        { seq: 2, data },
      ]
      const append = given.append(lease, 'events', records, { seal: true })
      await rejects(append, 'RECORD_INVALID', `a seal with ${data}`)
    }
    const turn = await given.log.getTurn('turn')
    equal([turn?.status, turn?.endedAt], ['in_progress', undefined], 'the status and the end')
    await given.append(lease, 'events', SIX.events, { seal: true })
    equal(texts(await given.read('turn', 'events')), STATE.events, 'the log')
  },
}
