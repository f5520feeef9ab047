import type {
  LogName,
  LogWriter,
  NewRecord,
  WriterOptions,
} from '@turnstream/core/internal/log/turn-log'
import { entryOf, type TextRecord } from './append.ts'
import { codeOf, equal, ok, rejects } from './assert.ts'
import { type Cases, type Given, LONG_MS, ofEachLog, soon, texts } from './given.ts'
import { counted, delta, message, SIX, STATE } from './texts.ts'

type AnyEntry = NewRecord

const MANY = 20_000

const WRONG: Readonly<Record<LogName, readonly unknown[]>> = {
  events: [
    undefined,
    'text',
    [],
    { event_id: 'e' },
    { timestamp: 1 },
    { event_id: 1, timestamp: 1 },
    { event_id: 'e', timestamp: Number.NaN },
  ],
  processed: [
    { eventId: 'e', timestamp: 1 },
    { output: [], eventId: 'e', timestamp: 1 },
    { output: { itemId: 1 }, eventId: 'e', timestamp: 1 },
    { output: { type: 'turn_started' }, timestamp: 1 },
    { output: { type: 'turn_started' }, eventId: 'e', timestamp: Number.NaN },
  ],
}

async function openNew(given: Given, name: LogName, options?: WriterOptions<AnyEntry>) {
  return openWriter(given, name, await given.create('turn'), options)
}

function openWriter(
  { log }: Given,
  name: LogName,
  lease: Parameters<typeof log.open>[0],
  options?: WriterOptions<AnyEntry>,
): LogWriter<AnyEntry> {
  return log.open(lease, name, options)
}

/** The entries of a complete log. */
function entriesOf(name: LogName): AnyEntry[] {
  return SIX[name].map((record) => entryOf(name, 'turn', record))
}

/** Each with its own key, so that none is superseded. */
function recordAt(name: LogName, seq: number): TextRecord {
  const data = name === 'events' ? delta('turn', seq) : message('turn', `item-${seq}`, '')
  return { seq, data }
}

function thrownBy(call: () => unknown): string | undefined {
  try {
    call()
    return undefined
  } catch (error) {
    return codeOf(error)
  }
}

export const writerCases: Cases = ofEachLog({
  'L7 a full writer reports it, gets room again and loses nothing': async (given, name) => {
    const writer = await openNew(given, name)
    const entryAt = (seq: number) => entryOf(name, 'turn', recordAt(name, seq))
    let count = 1
    while (count < MANY && writer.write(entryAt(count))) count += 1
    ok(count < MANY, `a writer took ${MANY} records in one go and had room for more`)
    equal(writer.waiting, count, 'how many wait')
    await writer.room()
    ok(writer.waiting < count, 'there is room, and as many wait as before')
    // A caller that does not wait for room is not refused.
    const last = count + 700
    for (let seq = count + 1; seq <= last; seq++) writer.write(entryAt(seq))
    await writer.flush()
    equal([writer.waiting, writer.stalledMs], [0, 0], 'what waits after a flush')
    const written = counted(1, last, (seq) => recordAt(name, seq).data)
    equal(texts(await given.take('turn', name, written.length)), texts(written), 'the records')
  },
  'L3 a flush waits for earlier writes, and later writes follow': async (given, name) => {
    const writer = await openNew(given, name)
    const entries = entriesOf(name)
    const flushes = entries.slice(0, 5).map((entry) => {
      writer.write(entry)
      return soon(writer.flush())
    })
    for (const [at, flush] of flushes.entries()) {
      await flush
      const { offset } = await given.log.snapshot('turn')
      if (name === 'processed') ok(offset >= `1-${at + 1}`, `record ${at + 1} is not visible`)
      else await given.take('turn', name, at + 1)
    }
    await writer.seal(entries[5] as AnyEntry)
    equal(texts(await given.read('turn', name)), STATE[name], 'the log')
  },
  'L3 every record is reported once, in order, when it is visible': async (given, name) => {
    const stored: AnyEntry[] = []
    const seen: Promise<unknown>[] = []
    let isWriting = false
    let early = 0
    let reports = 0
    const onStored = (entries: readonly AnyEntry[]) => {
      if (isWriting) early += 1
      reports += 1
      for (const entry of entries) stored.push(entry)
      if (name === 'events') seen.push(soon(given.take('turn', name, stored.length)))
    }
    const writer = await openNew(given, name, { onStored })
    const entries = entriesOf(name)
    for (const [at, entry] of entries.slice(0, 5).entries()) {
      isWriting = true
      writer.write(entry)
      isWriting = false
      if (at === 2) await writer.flush()
    }
    isWriting = true
    const sealed = soon(writer.seal(entries[5] as AnyEntry))
    isWriting = false
    await sealed
    equal(early, 0, 'the number of reports from within write')
    const isComplete = stored.length === 6 && stored.every((entry, at) => entry === entries[at])
    ok(isComplete, `of 6 records ${stored.length} were reported, or in another order`)
    ok(reports >= 2, 'records of a later flush were reported with those of an earlier one')
    await Promise.all(seen)
  },
  'L3 a writer with a lost lease fails once and stores nothing more': async (given, name) => {
    const errors: unknown[] = []
    const stored: AnyEntry[] = []
    let isWriting = false
    let early = 0
    const onFailed = (error: unknown) => {
      if (isWriting) early += 1
      errors.push(error)
    }
    const onStored = (entries: readonly AnyEntry[]) => stored.push(...entries)
    const lease = await given.createOrphan('turn')
    const writer = openWriter(given, name, lease, { onFailed, onStored })
    const late = openWriter(given, name, lease, { next: 2, onFailed })
    const entries = entriesOf(name)
    writer.write(entries[0] as AnyEntry)
    await writer.flush()
    const heir = await given.log.claim('turn', 'heir', LONG_MS)
    for (const each of [writer, late]) {
      isWriting = true
      each.write(entries[1] as AnyEntry)
      isWriting = false
      await rejects(each.flush(), 'LEASE_LOST', 'a flush')
      isWriting = true
      // Dropped; waiting for room would be useless.
      each.write(entries[2] as AnyEntry)
      isWriting = false
      await each.room()
      await rejects(each.flush(), 'LEASE_LOST', 'a flush of what was dropped')
      const seal = (async () => each.seal(entries[5] as AnyEntry))()
      await rejects(seal, 'LEASE_LOST', 'a seal')
    }
    await given.log.getTurn('turn')
    equal(errors.map(codeOf), ['LEASE_LOST', 'LEASE_LOST'], 'one failure of each writer')
    equal(early, 0, 'the number of failures reported from within write')
    equal(stored.length, 1, 'the number of records that were reported')
    const next = openWriter(given, name, heir)
    for (const entry of entries.slice(1, 5)) next.write(entry)
    await next.seal(entries[5] as AnyEntry)
    equal(texts(await given.read('turn', name)), STATE[name], 'the log')
  },
  'L3 two writers of one lease may write the same records': async (given, name) => {
    const lease = await given.create('turn')
    const entries = entriesOf(name)
    const [first, second] = [openWriter(given, name, lease), openWriter(given, name, lease)]
    for (const entry of entries.slice(0, 4)) {
      first.write(entry)
      second.write(entry)
    }
    await Promise.all([first.flush(), second.flush()])
    const third = openWriter(given, name, lease, { next: 3 })
    for (const entry of entries.slice(2, 5)) third.write(entry)
    await third.flush()
    first.write(entries[4] as AnyEntry)
    await first.seal(entries[5] as AnyEntry)
    await third.seal(entries[5] as AnyEntry)
    equal(texts(await given.read('turn', name)), STATE[name], 'the log')
  },
  'L4 a writer that sealed its log rejects records with LOG_SEALED': async (given, name) => {
    const writer = await openNew(given, name)
    const entries = entriesOf(name)
    const last = entries[5] as AnyEntry
    for (const entry of entries.slice(0, 5)) writer.write(entry)
    const sealed = soon(writer.seal(last))
    const write = () => thrownBy(() => writer.write(last))
    equal(write(), 'LOG_SEALED', 'a write before the seal is stored')
    await sealed
    equal(write(), 'LOG_SEALED', 'a write after it')
    await rejects((async () => writer.seal(last))(), 'LOG_SEALED', 'another seal')
    await writer.flush()
    equal(texts(await given.read('turn', name)), STATE[name], 'the log')
  },
  'L3 an invalid record is RECORD_INVALID immediately and changes nothing': async (given, name) => {
    const writer = await openNew(given, name)
    const entries = entriesOf(name)
    for (const [at, entry] of entries.slice(0, 5).entries()) {
      for (const wrong of WRONG[name]) {
        const what = `a record that is ${JSON.stringify(wrong)}`
        const thrown = thrownBy(() => writer.write(wrong as AnyEntry))
        equal(thrown, 'RECORD_INVALID', what)
        const seal = (async () => writer.seal(wrong as AnyEntry))()
        await rejects(seal, 'RECORD_INVALID', `the seal with ${what}`)
      }
      writer.write(entry)
      if (at % 2 === 0) await writer.flush()
    }
    await writer.seal(entries[5] as AnyEntry)
    equal(texts(await given.read('turn', name)), STATE[name], 'the log')
  },
  'L3 a closed writer stores nothing more and calls no callback': async (given, name) => {
    let calls = 0
    const called = () => {
      calls += 1
    }
    const lease = await given.create('turn')
    const writer = openWriter(given, name, lease, { onStored: called, onFailed: called })
    const entries = entriesOf(name)
    for (const entry of entries.slice(0, 2)) writer.write(entry)
    await writer.flush()
    const before = calls
    const wrong = [7, 8, 9].map((seq) => entryOf(name, 'turn', recordAt(name, seq)))
    for (const entry of entries.slice(2, 4)) writer.write(entry)
    writer.close()
    for (const entry of wrong) writer.write(entry)
    await writer.room()
    // Stored or not: it may have been in flight.
    await soon(writer.flush()).catch(() => {})
    writer.close()
    const next = openWriter(given, name, lease, { next: 3 })
    for (const entry of entries.slice(2, 5)) next.write(entry)
    await next.seal(entries[5] as AnyEntry)
    equal(calls, before, 'the number of calls')
    equal(texts(await given.read('turn', name)), STATE[name], 'the log')
  },
  'L1 a writer of a deleted turn or a closed store fails': async (given, name) => {
    const entries = entriesOf(name)
    const deleted = await openNew(given, name)
    deleted.write(entries[0] as AnyEntry)
    await deleted.flush()
    await given.log.deleteTurn('turn')
    deleted.write(entries[1] as AnyEntry)
    await rejects(deleted.flush(), 'LEASE_LOST', 'a flush after a deletion')
    const closed = await openNew(given, name)
    closed.write(entries[0] as AnyEntry)
    await closed.flush()
    await given.log.close()
    closed.write(entries[1] as AnyEntry)
    await rejects(closed.flush(), 'STORE_CLOSED', 'a flush after a close')
  },
})
