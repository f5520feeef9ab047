import type { LogRecord, OutputRecord } from '@turnstream/core/internal/log/turn-log'
import type { TextRecord } from './append.ts'
import { equal, ok } from './assert.ts'
import {
  type Cases,
  type Given,
  LONG_MS,
  nextOf,
  offsets,
  readAll,
  START,
  texts,
  toRecords,
} from './given.ts'
import { checkStates, seqOf } from './states.ts'
import { message, newestOf, outputsOf } from './texts.ts'

// Items that are updated long after others appeared, and one that is never updated.
const UPDATES = 'abacbdadcebaab'

function checkFirst(records: readonly OutputRecord[], expected: Record<string, number>): void {
  for (const { key, offset, firstSeq } of records) {
    equal(firstSeq, expected[key], `the first record of ${key}, at ${offset}`)
  }
}

async function writeTurn(given: Given, written: readonly TextRecord[]): Promise<void> {
  const lease = await given.create('turn')
  for (let at = 0; at < written.length; at += 2) {
    const part = written.slice(at, at + 2)
    await given.append(lease, 'processed', part, { seal: at + 2 >= written.length })
  }
}

export const processedCases: Cases = {
  'L6 a snapshot has the newest record of every key, in order of appearance': async (given) => {
    const written = outputsOf('turn', UPDATES)
    const lease = await given.create('turn')
    const empty = { records: [], offset: START, sealed: false }
    equal(await given.log.snapshot('turn'), empty, 'the snapshot of an empty log')
    for (const record of written) {
      const sealed = record.seq === written.length
      await given.append(lease, 'processed', [record], { seal: sealed })
      const snapshot = await given.log.snapshot('turn')
      const newest = newestOf(written.slice(0, record.seq))
      equal(texts(snapshot.records), texts(newest), `the texts of the snapshot at ${record.seq}`)
      const expected = newest.map(({ seq }) => `1-${seq}`)
      equal(offsets(snapshot.records), expected, 'its offsets')
      equal([snapshot.offset, snapshot.sealed], [`1-${record.seq}`, sealed], 'offset and seal')
    }
  },
  'L6 history is in order of appearance, from turn_started to the terminal': async (given) => {
    const written = outputsOf('turn', UPDATES)
    await writeTurn(given, written)
    const seen = await given.read('turn', 'processed')
    const keys = seen.map(({ key }) => key).join(' ')
    equal(keys, 'turn_started a b c d e turn_complete', 'the keys')
    equal(texts(seen), texts(newestOf(written)), 'the texts')
    equal(seen, (await given.log.snapshot('turn')).records, 'the records')
  },
  'L6 a resume gives the newest state of every item that changed': async (given) => {
    const written = outputsOf('turn', UPDATES)
    await writeTurn(given, written)
    const all = await given.read('turn', 'processed')
    for (let seq = 0; seq <= written.length; seq++) {
      const tail = given.tail('turn', 'processed', seq === 0 ? START : `1-${seq}`)
      const seen = toRecords(await readAll(tail))
      const changed = all.filter((record) => seqOf(record) > seq)
      equal(seen, changed, `what follows ${seq}, whose record may have been superseded`)
      equal(tail.cursor, `1-${written.length}`, 'the cursor at the end')
    }
  },
  'L6 a resume of an open log gives the newest state of every item that changed': async (given) => {
    const lease = await given.create('turn')
    const written = outputsOf('turn', UPDATES).slice(0, -1)
    await given.append(lease, 'processed', written)
    for (let seq = 0; seq < written.length; seq++) {
      const expected = newestOf(written).filter((record) => record.seq > seq)
      const after = seq === 0 ? START : `1-${seq}`
      const seen = await given.take('turn', 'processed', expected.length, after)
      equal(texts(seen), texts(expected), `what follows ${seq}`)
    }
  },
  'L6 the cursor moves at the end of a block; a disconnect inside repeats it': async (given) => {
    const written = outputsOf('turn', UPDATES)
    await writeTurn(given, written)
    const all = await given.read('turn', 'processed')
    for (let cut = 1; cut <= all.length; cut++) {
      const tail = given.tail('turn', 'processed')
      const seen: LogRecord[] = []
      for await (const each of tail) {
        seen.push(...toRecords([each]))
        if (seen.length === cut) break
      }
      const last = cut === all.length
      equal(tail.cursor, last ? `1-${written.length}` : START, `the cursor after ${cut} records`)
      const rest = await given.read('turn', 'processed', tail.cursor)
      equal(rest, last ? [] : all, 'what a reader gets that was cut off')
    }
  },
  'L6 a reader that disconnects after any record ends with the newest states': async (given) => {
    const written = outputsOf('turn', UPDATES)
    const lease = await given.create('turn')
    const states = new Map<string, LogRecord>()
    let cursor = START
    for (const record of written) {
      const seal = record.seq === written.length
      await given.append(lease, 'processed', [record], { seal })
      if (record.seq % 3 !== 0) continue
      // Take one record of the block and disconnect.
      const tail = given.tail('turn', 'processed', cursor)
      for await (const each of tail) {
        const [seen] = toRecords([each])
        if (seen !== undefined) states.set(seen.key, seen)
        break
      }
      cursor = tail.cursor
    }
    for (const seen of await given.read('turn', 'processed', cursor)) states.set(seen.key, seen)
    const newest = texts(newestOf(written)).toSorted()
    equal(newest, texts([...states.values()]).toSorted(), 'the states')
  },
  'a record knows the first record of its key, for every reader and cursor': async (given) => {
    const lease = await given.create('turn')
    const written = outputsOf('turn', 'abbcdcda').slice(0, -1)
    const tail = given.tail('turn', 'processed')
    const follower = tail[Symbol.asyncIterator]()
    const expected = { turn_started: 1, a: 2, b: 3, c: 5, d: 6 }
    // `b` appears with its second state, `c` and `d` in one append.
    let from = 0
    for (const to of [2, 4, 8, 9]) {
      await given.append(lease, 'processed', written.slice(from, to))
      from = to
      while (tail.cursor !== `1-${to}`) checkFirst([await nextOf(follower)], expected)
      checkFirst((await given.log.snapshot('turn')).records, expected)
    }
    for (let seq = 0; seq < written.length; seq++) {
      const count = newestOf(written).filter((record) => record.seq > seq).length
      const after = seq === 0 ? START : `1-${seq}`
      checkFirst(await given.take('turn', 'processed', count, after), expected)
    }
  },
  'the first record of a key stays the same across epochs and restarts': async (given) => {
    const lease = await given.createOrphan('turn')
    await given.append(lease, 'processed', outputsOf('turn', 'abb').slice(0, -1))
    const heir = await given.log.claim('turn', 'heir', LONG_MS)
    const later = ['b', 'c', 'a', 'c'].map((item, index) => ({
      seq: index + 5,
      data: message('turn', item, `${item} again`),
    }))
    await given.append(heir, 'processed', later)
    const expected = { turn_started: 1, a: 2, b: 3, c: 6 }
    checkFirst((await given.log.snapshot('turn')).records, expected)
    const log = await given.under.reopen?.()
    if (log !== undefined) checkFirst((await log.snapshot('turn')).records, expected)
  },
  'L8 a slow reader skips superseded records': async (given) => {
    const lease = await given.create('turn')
    const written = outputsOf('turn', 'ab'.repeat(200))
    const tail = given.tail('turn', 'processed')
    const iterator = tail[Symbol.asyncIterator]()
    await given.append(lease, 'processed', written.slice(0, 1))
    const seen = [await nextOf(iterator)]
    for (let at = 1; at < written.length; at += 3) {
      const part = written.slice(at, at + 3)
      await given.append(lease, 'processed', part, { seal: at + 3 >= written.length })
    }
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
      seen.push(...toRecords([next.value]))
    }
    ok(seen.length <= 40, `of 402 records a reader got ${seen.length} that was away for 400`)
    checkStates(seen, written)
    equal(tail.cursor, `1-${written.length}`, 'the cursor at the end')
  },
  'L6 a reader that keeps up sees every state of every item in order': async (given) => {
    const lease = await given.create('turn')
    const written = outputsOf('turn', UPDATES)
    const tail = given.tail('turn', 'processed')
    const iterator = tail[Symbol.asyncIterator]()
    const seen: OutputRecord[] = []
    for (const record of written) {
      const seal = record.seq === written.length
      await given.append(lease, 'processed', [record], { seal })
      seen.push(await nextOf(iterator))
      equal(tail.cursor, `1-${record.seq}`, 'the cursor')
    }
    equal(texts(seen), texts(written), 'the texts')
    checkStates(seen, written)
  },
  'L1 the key of a snapshot is its item id, or the type of a turn event': async (given) => {
    const lease = await given.create('turn')
    const [started] = outputsOf('turn', '') as [TextRecord]
    const outputs = [
      started,
      { seq: 2, data: message('turn', 'item "1"', 'one') },
      { seq: 3, data: '{"any":"json","itemId":"item \\"1\\""}' },
      { seq: 4, data: '{ "content": "x", "itemId": "late" }' },
      { seq: 5, data: '{"type":"turn_error","error":{"code":"C","message":"m"}}' },
    ]
    await given.append(lease, 'processed', outputs)
    const { records } = await given.log.snapshot('turn')
    const keys = records.map(({ offset, key }) => `${offset} ${key}`)
    const expected = ['1-1 turn_started', '1-3 item "1"', '1-4 late', '1-5 turn_error']
    equal(keys, expected, 'the keys')
  },
  'L1 a snapshot keeps its envelope': async (given) => {
    const lease = await given.create('turn')
    const envelopes = [
      { eventId: 'mine', timestamp: 12_345 },
      { eventId: 'ünï "2"', timestamp: 0.5 },
    ]
    const records = envelopes.map((envelope, index) => ({
      seq: index + 1,
      data: message('turn', `item-${index}`, ''),
      ...envelope,
    }))
    await given.append(lease, 'processed', records)
    const stored = await given.take('turn', 'processed', 2)
    const found = stored.map(({ eventId, timestamp }) => ({ eventId, timestamp }))
    equal(found, envelopes, 'the envelopes')
    await given.under.elapse(5)
    equal(await given.take('turn', 'processed', 2), stored, 'what is read later')
  },
}
