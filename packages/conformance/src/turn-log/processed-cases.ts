import type { LogRecord, OutputRecord } from '@turnstream/core/internal/log/turn-log'
import { equal, ok } from './assert.ts'
import { type Cases, LONG_MS, ofLog, START } from './given.ts'
import {
  checkStates,
  nextOf,
  offsets,
  readAll,
  seqOf,
  takeFrom,
  texts,
  toRecords,
} from './reading.ts'
import { message, newestOf, numbered, outputsOf, turnStarted } from './texts.ts'

// Items that are updated long after others appeared, and one that is never updated.
const WRITTEN = outputsOf('turn', 'abacbdadcebaab')

function checkFirst(records: readonly OutputRecord[], expected: Record<string, number>): void {
  for (const { key, offset, firstSeq } of records) {
    equal(firstSeq, expected[key], `the first record of ${key}, at ${offset}`)
  }
}

export const processedCases: Cases = ofLog('processed', {
  'L6 a snapshot has the newest record of every key, in order of appearance': async (given) => {
    const empty = { records: [], offset: START, sealed: false }
    equal(await given.log.snapshot('turn'), empty, 'the snapshot of an empty log')
    for (const record of WRITTEN) {
      const sealed = record.seq === WRITTEN.length
      await given.write([record], { seal: sealed })
      const snapshot = await given.log.snapshot('turn')
      const newest = newestOf(WRITTEN.slice(0, record.seq))
      equal(texts(snapshot.records), texts(newest), `the texts of the snapshot at ${record.seq}`)
      const expected = newest.map(({ seq }) => `1-${seq}`)
      equal(offsets(snapshot.records), expected, 'its offsets')
      equal([snapshot.offset, snapshot.sealed], [`1-${record.seq}`, sealed], 'offset and seal')
    }
  },
  'L6 history is in order of appearance, from turn_started to the terminal': async (given) => {
    await given.writeAll(WRITTEN, 2)
    const seen = await given.records()
    const keys = seen.map(({ key }) => key).join(' ')
    equal(keys, 'turn_started a b c d e turn_complete', 'the keys')
    equal(texts(seen), texts(newestOf(WRITTEN)), 'the texts')
    equal(seen, (await given.log.snapshot('turn')).records, 'the records')
  },
  'L6 a resume gives the newest state of every item that changed': async (given) => {
    await given.writeAll(WRITTEN, 2)
    const all = await given.records()
    for (let seq = 0; seq <= WRITTEN.length; seq++) {
      const tail = given.follow(seq === 0 ? START : `1-${seq}`)
      const seen = toRecords(await readAll(tail))
      const changed = all.filter((record) => seqOf(record) > seq)
      equal(seen, changed, `what follows ${seq}, whose record may have been superseded`)
      equal(tail.cursor, `1-${WRITTEN.length}`, 'the cursor at the end')
    }
  },
  'L6 a resume of an open log gives the newest state of every item that changed': async (given) => {
    const written = WRITTEN.slice(0, -1)
    await given.write(written)
    for (let seq = 0; seq < written.length; seq++) {
      const expected = newestOf(written).filter((record) => record.seq > seq)
      const after = seq === 0 ? START : `1-${seq}`
      const seen = await given.first(expected.length, after)
      equal(texts(seen), texts(expected), `what follows ${seq}`)
    }
  },
  'L6 the cursor moves at the end of a block; a disconnect inside repeats it': async (given) => {
    await given.writeAll(WRITTEN, 2)
    const all = await given.records()
    for (let cut = 1; cut <= all.length; cut++) {
      const tail = given.follow()
      toRecords(await takeFrom(tail, cut))
      const last = cut === all.length
      equal(tail.cursor, last ? `1-${WRITTEN.length}` : START, `the cursor after ${cut} records`)
      const rest = await given.records(tail.cursor)
      equal(rest, last ? [] : all, 'what a reader gets that was cut off')
    }
  },
  'L6 a reader that disconnects after any record ends with the newest states': async (given) => {
    const states = new Map<string, LogRecord>()
    let cursor = START
    for (const record of WRITTEN) {
      const seal = record.seq === WRITTEN.length
      await given.write([record], { seal })
      if (record.seq % 3 !== 0) continue
      // Take one record of the block and disconnect.
      const tail = given.follow(cursor)
      for (const seen of toRecords(await takeFrom(tail, 1))) states.set(seen.key, seen)
      cursor = tail.cursor
    }
    for (const seen of await given.records(cursor)) states.set(seen.key, seen)
    const newest = texts(newestOf(WRITTEN)).toSorted()
    equal(newest, texts([...states.values()]).toSorted(), 'the states')
  },
  'a record knows the first record of its key, for every reader and cursor': async (given) => {
    const written = outputsOf('turn', 'abbcdcda').slice(0, -1)
    const tail = given.follow()
    const follower = tail[Symbol.asyncIterator]()
    const expected = { turn_started: 1, a: 2, b: 3, c: 5, d: 6 }
    // `b` appears with its second state, `c` and `d` in one append.
    let from = 0
    for (const to of [2, 4, 8, 9]) {
      await given.write(written.slice(from, to))
      from = to
      while (tail.cursor !== `1-${to}`) checkFirst([await nextOf(follower)], expected)
      checkFirst((await given.log.snapshot('turn')).records, expected)
    }
    for (let seq = 0; seq < written.length; seq++) {
      const count = newestOf(written).filter((record) => record.seq > seq).length
      const after = seq === 0 ? START : `1-${seq}`
      checkFirst(await given.first(count, after), expected)
    }
  },
  'the first record of a key stays the same across epochs and restarts': async (given) => {
    await given.write(outputsOf('turn', 'abb').slice(0, -1))
    await given.expire()
    const heir = await given.log.claim('turn', 'heir', LONG_MS)
    const later = ['b', 'c', 'a', 'c'].map((item) => message('turn', item, `${item} again`))
    await given.append(heir, 'processed', numbered(later, 5))
    const expected = { turn_started: 1, a: 2, b: 3, c: 6 }
    checkFirst((await given.log.snapshot('turn')).records, expected)
    const { log } = await given.reopened()
    checkFirst((await log.snapshot('turn')).records, expected)
  },
  'L8 a slow reader skips superseded records': async (given) => {
    const written = outputsOf('turn', 'ab'.repeat(200))
    const tail = given.follow()
    const iterator = tail[Symbol.asyncIterator]()
    await given.write(written.slice(0, 1))
    const seen = [await nextOf(iterator)]
    await given.writeAll(written.slice(1), 3)
    seen.push(...toRecords(await readAll({ [Symbol.asyncIterator]: () => iterator })))
    ok(seen.length <= 40, `of 402 records a reader got ${seen.length} that was away for 400`)
    checkStates(seen, written)
    equal(tail.cursor, `1-${written.length}`, 'the cursor at the end')
  },
  'L6 a reader that keeps up sees every state of every item in order': async (given) => {
    const tail = given.follow()
    const iterator = tail[Symbol.asyncIterator]()
    const seen: OutputRecord[] = []
    for (const record of WRITTEN) {
      const seal = record.seq === WRITTEN.length
      await given.write([record], { seal })
      seen.push(await nextOf(iterator))
      equal(tail.cursor, `1-${record.seq}`, 'the cursor')
    }
    equal(texts(seen), texts(WRITTEN), 'the texts')
    checkStates(seen, WRITTEN)
  },
  'L1 the key of a snapshot is its item id, or the type of a turn event': async (given) => {
    const outputs = [
      turnStarted('turn'),
      message('turn', 'item "1"', 'one'),
      '{"any":"json","itemId":"item \\"1\\""}',
      '{ "content": "x", "itemId": "late" }',
      '{"type":"turn_error","error":{"code":"C","message":"m"}}',
    ]
    await given.write(numbered(outputs))
    const { records } = await given.log.snapshot('turn')
    const keys = records.map(({ offset, key }) => `${offset} ${key}`)
    const expected = ['1-1 turn_started', '1-3 item "1"', '1-4 late', '1-5 turn_error']
    equal(keys, expected, 'the keys')
  },
  'L1 a snapshot keeps its envelope': async (given) => {
    const envelopes = [
      { eventId: 'mine', timestamp: 12_345 },
      { eventId: 'ünï "2"', timestamp: 0.5 },
    ]
    const records = envelopes.map((envelope, index) => ({
      seq: index + 1,
      data: message('turn', `item-${index}`, ''),
      ...envelope,
    }))
    await given.write(records)
    const stored = await given.first(2)
    const found = stored.map(({ eventId, timestamp }) => ({ eventId, timestamp }))
    equal(found, envelopes, 'the envelopes')
    await given.under.elapse(5)
    equal(await given.first(2), stored, 'what is read later')
  },
})
