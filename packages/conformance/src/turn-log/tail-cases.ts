import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { equal, ok, rejects } from './assert.ts'
import { type Cases, ofEachLog, ofLog, START, soon } from './given.ts'
import { nextOf, offsets, readAll, takeFrom, texts, toRecords } from './reading.ts'
import { deltas, eventsUpTo, outputsOf } from './texts.ts'

const NO_CURSORS = ['', ' 1-1', '1-1 ', '1-1\n', `1-${'9'.repeat(17)}`].concat(
  '0 1- -1 a-b 1-1-1 01-1 1-01 1.5-1 -1-1 +1-1 1e3-1 0x1-1 ٣-٣ 1–1 $'.split(' '),
)

export const tailCases: Cases = {
  'L2 events: a tail from 0-0 yields every record, to the end of the log': async (given) => {
    const lease = await given.create('turn', { runId: 'run' })
    const written = eventsUpTo('run', 300)
    await given.append(lease, 'events', written.slice(0, 256))
    await given.append(lease, 'events', written.slice(256), { seal: true })
    const expected = written.map(({ seq, data }) => {
      const event = JSON.parse(data) as StreamEvent
      const { event_id: eventId, timestamp } = event
      return { offset: `1-${seq}`, data, eventId, timestamp, event }
    })
    equal(await given.read('turn', 'events'), expected, 'the records')
  },
  ...ofLog('events', {
    'L2 events: a resume after any record yields exactly the rest': async (given) => {
      const written = eventsUpTo('turn', 40)
      // Appends of many sizes, as from a writer that batches.
      for (let at = 0, size = 1; at < written.length; at += size, size = (size * 2) % 11) {
        const part = written.slice(at, at + size)
        await given.write(part, { seal: part.at(-1)?.seq === 40 })
      }
      const all = await given.records()
      equal(texts(all), texts(written), 'the records')
      for (const [index, { offset }] of all.entries()) {
        const tail = given.follow(offset)
        equal(toRecords(await readAll(tail)), all.slice(index + 1), `what follows ${offset}`)
        equal(tail.cursor, '1-40', 'the cursor at the end')
      }
    },
    'L2 events: a resume after any record of an open turn yields exactly the rest': async (
      given,
    ) => {
      const written = deltas('turn', 1, 12)
      for (const record of written) await given.write([record])
      for (let seq = 0; seq < 12; seq++) {
        const rest = await given.first(12 - seq, seq === 0 ? START : `1-${seq}`)
        equal(texts(rest), texts(written.slice(seq)), `what follows ${seq}`)
      }
    },
    'L8 events: a slow reader gets every record': async (given) => {
      const written = eventsUpTo('turn', 600)
      const iterator = given.iterator()
      await given.write(written.slice(0, 1))
      const seen = [await nextOf(iterator)]
      for (let at = 1; at < 600; at += 25) {
        const part = written.slice(at, at + 25)
        await given.write(part, { seal: part.at(-1)?.seq === 600 })
        seen.push(await nextOf(iterator))
      }
      while (seen.length < 600) seen.push(await nextOf(iterator))
      equal(texts(seen), texts(written), 'the records')
      equal((await iterator.next()).done, true, 'the end')
    },
  }),
  ...ofEachLog({
    'L2 a tail follows new records to the end of the sealed log': async (given, name) => {
      const written = name === 'events' ? eventsUpTo('turn', 12) : outputsOf('turn', 'abcdefghij')
      const tail = given.follow()
      const iterator = tail[Symbol.asyncIterator]()
      for (const record of written) {
        const next = soon(nextOf(iterator))
        await given.write([record], { seal: record.seq === 12 })
        equal((await next).data, record.data, `record ${record.seq}`)
        equal(tail.cursor, `1-${record.seq}`, 'the cursor')
      }
      equal((await iterator.next()).done, true, 'the end')
    },
    'L4 a tail at the end of a sealed log ends at once': async (given) => {
      await given.seal(given.lease)
      const whole = given.follow()
      await readAll(whole)
      const tail = given.follow(whole.cursor)
      equal(await readAll(tail), [], 'what follows the end')
      equal(tail.cursor, whole.cursor, 'the cursor')
    },
    'L4 a waiting tail ends when the last record seals the log': async (given, name) => {
      const written = name === 'events' ? eventsUpTo('turn', 3) : outputsOf('turn', 'a')
      await given.write(written.slice(0, 1))
      const reading = soon(given.records())
      await given.write(written.slice(1), { seal: true })
      equal(texts(await reading), texts(written), 'the records')
    },
    'L2 a cursor outside the log is foreign, and the whole log follows': async (given) => {
      await given.seal(given.lease)
      const all = await given.records()
      for (const cursor of ['1-99', '2-1', '7-2', '0-1', '1-0', `1-${'9'.repeat(15)}`]) {
        const [resync, ...rest] = await readAll(given.follow(cursor))
        equal(resync, { resync: 'foreign' }, `what a reader with ${cursor} gets first`)
        equal(toRecords(rest), all, `what a reader with ${cursor} gets then`)
      }
    },
    'L2 a reader with a foreign cursor also follows new records': async (given, name) => {
      const written = name === 'events' ? eventsUpTo('turn', 4) : outputsOf('turn', 'ab')
      await given.write(written.slice(0, 2))
      const tail = given.follow('1-9')
      const iterator = tail[Symbol.asyncIterator]()
      equal((await iterator.next()).value, { resync: 'foreign' }, 'what comes first')
      equal(tail.cursor, START, 'the cursor of a reader that starts over')
      for (const { data } of written.slice(0, 2)) equal((await nextOf(iterator)).data, data, 'text')
      await given.write(written.slice(2), { seal: true })
      for (const { data } of written.slice(2)) equal((await nextOf(iterator)).data, data, 'text')
      equal((await iterator.next()).done, true, 'the end')
    },
    'L2 a malformed cursor is CURSOR_INVALID': async (given) => {
      await given.seal(given.lease)
      for (const cursor of NO_CURSORS) {
        const reading = soon(readAll(given.follow(cursor)))
        await rejects(reading, 'CURSOR_INVALID', `a cursor ${JSON.stringify(cursor)}`)
      }
    },
    'L1 a tail of an unknown turn is TURN_UNKNOWN': async (given, name) => {
      await rejects(readAll(given.tail('other', name)), 'TURN_UNKNOWN', 'a tail')
    },
    'L1 an abort ends a tail at any time': async (given, name) => {
      const written = name === 'events' ? deltas('turn', 1, 3) : outputsOf('turn', 'a')
      const none = await readAll(given.log.tail('turn', name, START, AbortSignal.abort()))
      equal(none, [], 'what an aborted reader gets')
      const waiting = new AbortController()
      const end = soon(readAll(given.log.tail('turn', name, START, waiting.signal)))
      await given.write(written)
      await given.first(3)
      waiting.abort()
      ok((await end).length <= 3, 'an aborted reader got more than there is')
      const between = new AbortController()
      let seen = 0
      for await (const _ of given.log.tail('turn', name, START, between.signal)) {
        seen += 1
        between.abort()
      }
      equal(seen, 1, 'the number of records until the abort')
    },
    'L1 a tail of an open log reports when it has caught up': async (given, name) => {
      const isEvents = name === 'events'
      const written = isEvents ? deltas('turn', 1, 1000) : outputsOf('turn', 'ab').slice(0, 3)
      for (let at = 0; at < written.length; at += 250) {
        await given.write(written.slice(at, at + 250))
      }
      const stop = new AbortController()
      const tail = given.log.tail('turn', name, START, stop.signal)
      const caughtUp = tail.caughtUp.then(() => stop.abort())
      const all = texts(toRecords(await soon(readAll(tail))))
      equal(all, texts(written), 'the records')
      await caughtUp
      await soon(tail.caughtUp)
    },
    'L1 a reader that leaves does not affect the others': async (given, name) => {
      const written = name === 'events' ? eventsUpTo('turn', 4) : outputsOf('turn', 'ab')
      const reading = soon(given.records())
      await given.write(written.slice(0, 2))
      for (let count = 0; count < 20; count++) await takeFrom(given.follow(), 2)
      await given.write(written.slice(2), { seal: true })
      equal(texts(await reading), texts(written), 'what the one that stayed got')
    },
    'L8 readers that keep up share the same record objects': async (given, name) => {
      const written = name === 'events' ? deltas('turn', 1, 8) : outputsOf('turn', 'ababab')
      const readers = Array.from({ length: 3 }, () => given.iterator())
      let same = 0
      for (const record of written) {
        const nexts = readers.map((reader) => soon(nextOf(reader)))
        await given.write([record])
        const [first, ...others] = await Promise.all(nexts)
        if (others.every((other) => other === first)) same += 1
      }
      // While they join, readers may still be served separately.
      ok(same >= 5, `of 8 records, ${same} were the same for all readers`)
      for (const reader of readers) await reader.return?.()
    },
    'L3 a reader in another process sees new records': async (given, name) => {
      const other = await given.elsewhere()
      const written = name === 'events' ? eventsUpTo('turn', 12) : outputsOf('turn', 'abcdefghij')
      const reading = soon(other.read('turn', name))
      await given.writeAll(written)
      const seen = await reading
      equal(texts(seen), texts(written), 'the records')
      const expected = written.map(({ seq }) => `1-${seq}`)
      equal(offsets(seen), expected, 'the offsets')
    },
  }),
}
