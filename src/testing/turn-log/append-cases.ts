import { LOG_NAMES, type NewRecord } from '../../log/turn-log.ts'
import { equal, rejects } from './assert.ts'
import { type Case, nextOf, ofEachLog, START, soon, texts } from './given.ts'
import { delta, deltas, eventsUpTo, eventText, message, newestOf, outputsOf } from './texts.ts'

/** Six records of each log, the last of which is its end. */
const SIX = { events: eventsUpTo('turn', 6), processed: outputsOf('turn', 'abca') }

/** What a reader of the whole log gets of them. */
const STATE = { events: texts(SIX.events), processed: texts(newestOf(SIX.processed)) }

const MANY_ITEMS = Array.from({ length: 58 }, (_, index) => String.fromCharCode(0x41 + index))

/** What is added and how it is closed. */
export const appendCases: readonly Case[] = [
  ...ofEachLog([
    {
      name: 'L2 an append resolves with the offset of its last record',
      async run(given, name) {
        const lease = await given.create('turn')
        equal(await given.log.append(lease, name, SIX[name].slice(0, 1)), '1-1', 'the first offset')
        equal(await given.log.append(lease, name, SIX[name].slice(1, 4)), '1-4', 'the second')
      },
    },
    {
      name: 'L3 a record is visible everywhere when its append has resolved',
      async run(given, name) {
        const lease = await given.create('turn')
        const logs = [given.log, (await given.under.another?.()) ?? given.log]
        const allFrom = (after: string) =>
          logs.map((log) => {
            const tail = log.tail('turn', name, after, given.signal)
            return soon(nextOf(tail[Symbol.asyncIterator]()))
          })
        let after = START
        let waiting = allFrom(after)
        for (const record of SIX[name].slice(0, 4)) {
          const offset = await given.log.append(lease, name, [record])
          // To a log that lags behind, the offset that it gave would be foreign.
          const next = allFrom(offset)
          for (const seen of await Promise.all([...waiting, ...allFrom(after)])) {
            equal(seen, { ...seen, offset, data: record.data }, 'what a reader sees')
          }
          after = offset
          waiting = next
        }
      },
    },
    {
      name: 'L3 a repeated append changes nothing and gives the same offset',
      async run(given, name) {
        const lease = await given.create('turn')
        const append = (from: number, to: number, seal = false) =>
          given.log.append(lease, name, SIX[name].slice(from, to), { seal })
        equal(await append(0, 3), '1-3', 'the offset')
        equal(await append(0, 3), '1-3', 'the offset of the repetition')
        equal(await append(0, 1), '1-1', 'the offset of a part of it')
        equal(await append(1, 5), '1-5', 'the offset of an append that begins in the past')
        equal(await append(3, 6, true), '1-6', 'the offset of the last append')
        equal(await append(3, 6, true), '1-6', 'the offset of the repeated seal')
        equal(await append(0, 2), '1-2', 'the offset of a late repetition')
        equal(texts(await given.read('turn', name)), STATE[name], 'the log')
      },
    },
    {
      name: 'L3 a gap is LOG_SEQUENCE_GAP, and nothing of the append is added',
      async run(given, name) {
        const lease = await given.create('turn')
        const [first, second, third, fourth, ...rest] = SIX[name] as [
          NewRecord,
          NewRecord,
          NewRecord,
          NewRecord,
        ]
        const refused = (records: NewRecord[]) =>
          rejects(given.log.append(lease, name, records), 'LOG_SEQUENCE_GAP', 'a gap')
        await refused([second])
        await refused([first, third])
        await given.log.append(lease, name, [first])
        await refused([third, fourth])
        await refused([second, fourth])
        await refused([second, third, second])
        await given.log.append(lease, name, [second, third, fourth, ...rest], { seal: true })
        equal(texts(await given.read('turn', name)), STATE[name], 'the log')
      },
    },
    {
      name: 'L4 a sealed log takes nothing new, and the other log is still open',
      async run(given, name) {
        const lease = await given.create('turn')
        await given.log.append(lease, name, SIX[name], { seal: true })
        const more = [{ seq: 7, data: SIX[name][1]?.data ?? '' }]
        for (const options of [{}, { seal: false }, { seal: true }]) {
          const append = given.log.append(lease, name, more, options)
          await rejects(append, 'LOG_SEALED', 'a record after the last')
        }
        await rejects(given.log.append(lease, name, []), 'LOG_SEALED', 'an empty append')
        equal((await given.log.getTurn('turn'))?.sealed, false, 'sealed')
        const other = name === 'events' ? 'processed' : 'events'
        equal(await given.log.append(lease, other, SIX[other], { seal: true }), '1-6', 'the offset')
        equal((await given.log.getTurn('turn'))?.sealed, true, 'sealed')
        equal(texts(await given.read('turn', name)), STATE[name], 'the log')
      },
    },
    {
      name: 'L3 an append without records changes nothing and gives the last offset',
      async run(given, name) {
        const lease = await given.create('turn')
        equal(await given.log.append(lease, name, []), START, 'the offset of an empty log')
        await given.log.append(lease, name, SIX[name].slice(0, 2))
        equal(await given.log.append(lease, name, []), '1-2', 'the offset')
        const seal = given.log.append(lease, name, [], { seal: true })
        await rejects(seal, 'RECORD_INVALID', 'a seal without a record')
        await given.log.append(lease, name, SIX[name].slice(2), { seal: true })
        equal(texts(await given.read('turn', name)), STATE[name], 'the log')
      },
    },
    {
      name: 'L7 an append holds 256 records, and more are RECORD_INVALID',
      async run(given, name) {
        const lease = await given.create('turn')
        const many = Array.from({ length: 257 }, (_, index): NewRecord => {
          const seq = index + 1
          return {
            seq,
            data: name === 'events' ? delta('turn', seq) : message('turn', `i${seq}`, ''),
          }
        })
        await rejects(given.log.append(lease, name, many), 'RECORD_INVALID', '257 records')
        equal(await given.log.append(lease, name, many.slice(0, 256)), '1-256', 'the offset of 256')
        equal(texts(await given.take('turn', name, 256)), texts(many.slice(0, 256)), 'the records')
      },
    },
    {
      name: 'L4 a seal comes with the last record: with an earlier one it is RECORD_INVALID',
      async run(given, name) {
        const lease = await given.create('turn')
        const records = SIX[name].slice(0, 3)
        await given.log.append(lease, name, records)
        const last =
          name === 'events' ? { seq: 2, data: SIX.events.at(-1)?.data ?? '' } : records[1]
        const seal = given.log.append(lease, name, last === undefined ? [] : [last], { seal: true })
        await rejects(seal, 'RECORD_INVALID', 'a seal with the second of three records')
        await given.log.append(lease, name, SIX[name].slice(3), { seal: true })
        equal(texts(await given.read('turn', name)), STATE[name], 'the log')
      },
    },
    {
      name: 'L3 a seq that is none is RECORD_INVALID',
      async run(given, name) {
        const lease = await given.create('turn')
        for (const seq of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
          const append = given.log.append(lease, name, [{ seq, data: SIX[name][0]?.data ?? '' }])
          await rejects(append, 'RECORD_INVALID', `seq ${seq}`)
        }
        equal(await given.log.append(lease, name, SIX[name].slice(0, 1)), '1-1', 'the offset')
      },
    },
    {
      name: 'L3 appends that nobody awaited take effect in the order of their calls',
      async run(given, name) {
        const lease = await given.create('turn')
        const records =
          name === 'events' ? eventsUpTo('turn', 60) : outputsOf('turn', MANY_ITEMS.join(''))
        const appends = records.map((record) =>
          given.log.append(lease, name, [record], { seal: record.seq === 60 }),
        )
        const expected = records.map(({ seq }) => `1-${seq}`)
        equal(await Promise.all(appends), expected, 'the offsets')
        equal(texts(await given.read('turn', name)), texts(records), 'the records')
      },
    },
    {
      name: 'L8 a reader that does not read delays no append',
      async run(given, name) {
        const lease = await given.create('turn')
        const iterator = given.tail('turn', name)[Symbol.asyncIterator]()
        const all = name === 'events' ? deltas('turn', 1, 300) : outputsOf('turn', 'ab'.repeat(150))
        await given.log.append(lease, name, all.slice(0, 1))
        await iterator.next()
        for (const record of all.slice(1)) await given.log.append(lease, name, [record])
        await iterator.return?.()
      },
    },
  ]),
  {
    name: 'L4 whoever sees the last record of a log finds the log sealed',
    async run(given) {
      const lease = await given.create('turn')
      for (const name of LOG_NAMES) {
        await given.log.append(lease, name, SIX[name].slice(0, 5))
        const last = given.tail('turn', name, '1-5')[Symbol.asyncIterator]()
        const seen = soon(nextOf(last))
        const append = soon(given.log.append(lease, name, SIX[name].slice(5), { seal: true }))
        await seen
        const { status, sealed } = (await given.log.getTurn('turn')) ?? {}
        equal([status, sealed], ['complete', name === 'processed'], `the record with ${name} read`)
        equal((await last.next()).done, true, 'the end')
        await append
      }
    },
  },
  {
    name: 'L4 events ends with a terminal event: another one with a seal is RECORD_INVALID and changes nothing',
    async run(given) {
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
        const append = given.log.append(lease, 'events', records, { seal: true })
        await rejects(append, 'RECORD_INVALID', `a seal with ${data}`)
      }
      const turn = await given.log.getTurn('turn')
      equal([turn?.status, turn?.endedAt], ['in_progress', undefined], 'the status and the end')
      await given.log.append(lease, 'events', SIX.events, { seal: true })
      equal(texts(await given.read('turn', 'events')), STATE.events, 'the log')
    },
  },
  {
    name: 'L3 one record that cannot be kept is RECORD_INVALID, and none of its append is added',
    async run(given) {
      const lease = await given.create('turn')
      const wrong = {
        events: [
          '',
          'text',
          '[]',
          '{"event_id":"e"}',
          '{"timestamp":1}',
          '{"event_id":1,"timestamp":1}',
        ],
        processed: ['', 'text', '[]', '{}', '{"itemId":1}'],
      }
      for (const name of LOG_NAMES) {
        const [first, , third] = SIX[name] as [NewRecord, NewRecord, NewRecord]
        for (const data of wrong[name]) {
          const append = given.log.append(lease, name, [first, { seq: 2, data }, third])
          await rejects(append, 'RECORD_INVALID', `a record of ${name} that is ${data}`)
        }
        await given.log.append(lease, name, SIX[name], { seal: true })
        equal(texts(await given.read('turn', name)), STATE[name], 'the log')
      }
    },
  },
]
