import { LOG_NAMES } from '@turnstream/core/internal/log/turn-log'
import { equal, rejects } from './assert.ts'
import { type Cases, ofEachLog, ofLog, START, soon } from './given.ts'
import { nextOf, offsets, texts } from './reading.ts'
import { delta, deltas, eventsUpTo, eventText, outputsOf, SIX } from './texts.ts'

const MANY_ITEMS = Array.from({ length: 58 }, (_, index) => String.fromCharCode(0x41 + index))

export const appendCases: Cases = {
  ...ofEachLog({
    'L2 records get consecutive offsets, starting where the lease starts': async (given, name) => {
      await given.write(SIX[name].slice(0, 1))
      await given.write(SIX[name].slice(1, 4))
      equal(offsets(await given.first(4)), ['1-1', '1-2', '1-3', '1-4'], 'offsets')
    },
    'L3 a record is visible everywhere once its flush resolves': async (given, name) => {
      const places = [given, await given.elsewhere()]
      const allFrom = (after: string) =>
        places.map((each) => soon(nextOf(each.iterate('turn', name, after))))
      let after = START
      let waiting = allFrom(after)
      for (const record of SIX[name].slice(0, 4)) {
        const offset = await given.write([record])
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
      const append = (from: number, to: number, seal = false) =>
        given.write(SIX[name].slice(from, to), { seal })
      await append(0, 3)
      await append(0, 3)
      await append(0, 1)
      // Starts with records that are already stored.
      await append(1, 5)
      await append(3, 6, true)
      await append(3, 6, true)
      await append(0, 2)
      await given.checkComplete()
    },
    'L3 a gap is LOG_SEQUENCE_GAP, and no record after it is stored': async (given, name) => {
      const refused = (from: number, to: number) =>
        rejects(given.write(SIX[name].slice(from, to)), 'LOG_SEQUENCE_GAP', 'a gap')
      await refused(1, 2)
      await given.write(SIX[name].slice(0, 1))
      await refused(2, 4)
      await refused(5, 6)
      await given.write(SIX[name].slice(1), { seal: true })
      await given.checkComplete()
    },
    'L4 a sealed log rejects new records, and the other log stays open': async (given, name) => {
      await given.write(SIX[name], { seal: true })
      const more = [{ seq: 7, data: SIX[name][1]?.data ?? '' }]
      const last = name === 'events' ? eventsUpTo('turn', 7, 7) : more
      await rejects(given.write(more), 'LOG_SEALED', 'another record')
      const seal = given.write(last, { seal: true })
      await rejects(seal, 'LOG_SEALED', 'another last record')
      equal((await given.log.getTurn('turn'))?.sealed, false, 'sealed')
      const other = name === 'events' ? 'processed' : 'events'
      await given.append(given.lease, other, SIX[other], { seal: true })
      equal((await given.log.getTurn('turn'))?.sealed, true, 'sealed')
      await given.checkComplete()
    },
    'L3 the flush of an unused writer resolves and changes nothing': async (given, name) => {
      const idle = async () => {
        const writer = given.log.open(given.lease, name)
        await writer.flush()
        await writer.room()
        equal([writer.waiting, writer.stalledMs], [0, 0], 'what waits')
        writer.close()
      }
      await idle()
      await given.write(SIX[name].slice(0, 2))
      await idle()
      await given.write(SIX[name].slice(2), { seal: true })
      await idle()
      await given.checkComplete()
    },
    'L4 sealing with an earlier record than the last is RECORD_INVALID': async (given, name) => {
      const records = SIX[name].slice(0, 3)
      await given.write(records)
      const earlier = name === 'events' ? eventsUpTo('turn', 2, 2) : records.slice(1, 2)
      const seal = given.write(earlier, { seal: true })
      await rejects(seal, 'RECORD_INVALID', 'a seal with the second of three records')
      await given.write(SIX[name].slice(3), { seal: true })
      await given.checkComplete()
    },
    'L3 a writer with an invalid first seq is OPTION_INVALID': async (given, name) => {
      for (const next of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
        const opened = (async () => given.log.open(given.lease, name, { next }))()
        await rejects(opened, 'OPTION_INVALID', `next ${next}`)
      }
      await given.write(SIX[name], { seal: true })
      await given.checkComplete()
    },
    'L3 appends take effect in call order without being awaited': async (given, name) => {
      const records =
        name === 'events' ? eventsUpTo('turn', 60) : outputsOf('turn', MANY_ITEMS.join(''))
      const appends = records.map((record) =>
        soon(given.write([record], { seal: record.seq === 60 })),
      )
      await Promise.all(appends)
      equal(texts(await given.records()), texts(records), 'the records')
    },
    'L8 a reader that does not read delays no append': async (given, name) => {
      const iterator = given.iterator()
      const all = name === 'events' ? deltas('turn', 1, 300) : outputsOf('turn', 'ab'.repeat(150))
      await given.write(all.slice(0, 1))
      await iterator.next()
      for (const record of all.slice(1)) await given.write([record])
      await iterator.return?.()
    },
  }),
  'L4 a reader that sees the last record of a log finds the log sealed': async (given) => {
    const lease = await given.create('turn')
    for (const name of LOG_NAMES) {
      await given.append(lease, name, SIX[name].slice(0, 5))
      const last = given.iterate('turn', name, '1-5')
      const seen = soon(nextOf(last))
      const append = soon(given.append(lease, name, SIX[name].slice(5), { seal: true }))
      await seen
      const { status, sealed } = (await given.log.getTurn('turn')) ?? {}
      equal([status, sealed], ['complete', name === 'processed'], `the record with ${name} read`)
      equal((await last.next()).done, true, 'the end')
      await append
    }
  },
  ...ofLog('events', {
    'L4 sealing events with a non-terminal event is RECORD_INVALID': async (given) => {
      const wrong = [
        delta('turn', 2, 'not the end'),
        eventText('turn', 2, { type: 'usage_update' }),
        eventText('turn', 2, { type: 'response_done' }),
        eventText('turn', 2, { type: 'vendor_done' }),
        '{"event_id":"e","timestamp":1}',
      ]
      for (const data of wrong) {
        const append = given.write([...deltas('turn', 1, 1), { seq: 2, data }], { seal: true })
        await rejects(append, 'RECORD_INVALID', `a seal with ${data}`)
      }
      const turn = await given.log.getTurn('turn')
      equal([turn?.status, turn?.endedAt], ['in_progress', undefined], 'the status and the end')
      await given.write(SIX.events, { seal: true })
      await given.checkComplete()
    },
  }),
}
