import type { LogName, NewRecord, WriterOptions } from '@turnstream/core/internal/log/turn-log'
import { entryOf, type TextRecord } from './append.ts'
import { codeOf, equal, ok, rejects } from './assert.ts'
import { type Cases, type GivenLog, LONG_MS, ofEachLog, soon } from './given.ts'
import { texts } from './reading.ts'
import { counted, delta, message, SIX } from './texts.ts'

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

type Writer = ReturnType<typeof openWriter>

function openWriter({ log, name, lease }: GivenLog, options?: WriterOptions<NewRecord>) {
  return log.open(lease, name, options)
}

/** Entries of a complete log. */
function entries(name: LogName, first = 1, last = 6): NewRecord[] {
  return SIX[name].slice(first - 1, last).map((record) => entryOf(name, 'turn', record))
}

function entry(name: LogName, seq: number): NewRecord {
  return entryOf(name, 'turn', SIX[name][seq - 1] as TextRecord)
}

function write(writer: Writer, all: readonly NewRecord[]): void {
  for (const each of all) writer.write(each)
}

/** Writes the rest of the complete log, seals it and checks it. */
async function finish(given: GivenLog, writer: Writer, first: number): Promise<void> {
  write(writer, entries(given.name, first, 5))
  await writer.seal(entry(given.name, 6))
  await given.checkComplete()
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

/** What writers report, which must not happen from within a write. */
class Reports {
  readonly stored: NewRecord[] = []
  readonly errors: unknown[] = []
  calls = 0
  early = 0
  #isWriting = false

  readonly onStored = (all: readonly NewRecord[]): void => {
    this.#count()
    this.stored.push(...all)
  }

  readonly onFailed = (error: unknown): void => {
    this.#count()
    this.errors.push(error)
  }

  #count(): void {
    this.calls += 1
    if (this.#isWriting) this.early += 1
  }

  during<T>(writing: () => T): T {
    this.#isWriting = true
    const result = writing()
    this.#isWriting = false
    return result
  }
}

export const writerCases: Cases = ofEachLog({
  'L7 a full writer reports it, gets room again and loses nothing': async (given, name) => {
    const writer = openWriter(given)
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
    equal(texts(await given.first(written.length)), texts(written), 'the records')
  },
  'L3 a flush waits for earlier writes, and later writes follow': async (given, name) => {
    const writer = openWriter(given)
    const flushes = entries(name, 1, 5).map((each) => {
      writer.write(each)
      return soon(writer.flush())
    })
    for (const [at, flush] of flushes.entries()) {
      await flush
      const { offset } = await given.log.snapshot('turn')
      if (name === 'processed') ok(offset >= `1-${at + 1}`, `record ${at + 1} is not visible`)
      else await given.first(at + 1)
    }
    await finish(given, writer, 6)
  },
  'L3 every record is reported once, in order, when it is visible': async (given, name) => {
    const reports = new Reports()
    const seen: Promise<unknown>[] = []
    const onStored = (all: readonly NewRecord[]) => {
      reports.onStored(all)
      if (name === 'events') seen.push(soon(given.first(reports.stored.length)))
    }
    const writer = openWriter(given, { onStored })
    const written = entries(name)
    const [last] = written.slice(-1) as [NewRecord]
    for (const [at, each] of written.slice(0, 5).entries()) {
      reports.during(() => writer.write(each))
      if (at === 2) await writer.flush()
    }
    await reports.during(() => soon(writer.seal(last)))
    equal(reports.early, 0, 'the number of reports from within write')
    const { stored } = reports
    const isComplete = stored.length === 6 && stored.every((each, at) => each === written[at])
    ok(isComplete, `of 6 records ${stored.length} were reported, or in another order`)
    ok(reports.calls >= 2, 'records of a later flush were reported with those of an earlier one')
    await Promise.all(seen)
  },
  'L3 a writer with a lost lease fails once and stores nothing more': async (given, name) => {
    const reports = new Reports()
    const { onFailed, onStored } = reports
    const writer = openWriter(given, { onFailed, onStored })
    const late = openWriter(given, { next: 2, onFailed })
    writer.write(entry(name, 1))
    await writer.flush()
    await given.expire()
    const heir = await given.log.claim('turn', 'heir', LONG_MS)
    for (const each of [writer, late]) {
      reports.during(() => each.write(entry(name, 2)))
      await rejects(each.flush(), 'LEASE_LOST', 'a flush')
      // Dropped; waiting for room would be useless.
      reports.during(() => each.write(entry(name, 3)))
      await each.room()
      await rejects(each.flush(), 'LEASE_LOST', 'a flush of what was dropped')
      const seal = (async () => each.seal(entry(name, 6)))()
      await rejects(seal, 'LEASE_LOST', 'a seal')
    }
    await given.log.getTurn('turn')
    const { errors, early, stored } = reports
    equal(errors.map(codeOf), ['LEASE_LOST', 'LEASE_LOST'], 'one failure of each writer')
    equal(early, 0, 'the number of failures reported from within write')
    equal(stored.length, 1, 'the number of records that were reported')
    await finish(given, given.log.open(heir, name), 2)
  },
  'L3 two writers of one lease may write the same records': async (given, name) => {
    const [first, second] = [openWriter(given), openWriter(given)]
    for (const each of entries(name, 1, 4)) {
      first.write(each)
      second.write(each)
    }
    await Promise.all([first.flush(), second.flush()])
    const third = openWriter(given, { next: 3 })
    write(third, entries(name, 3, 5))
    await third.flush()
    await finish(given, first, 5)
    await third.seal(entry(name, 6))
    await given.checkComplete()
  },
  'L4 a writer that sealed its log rejects records with LOG_SEALED': async (given, name) => {
    const writer = openWriter(given)
    const last = entry(name, 6)
    write(writer, entries(name, 1, 5))
    const sealed = soon(writer.seal(last))
    const writeAgain = () => thrownBy(() => writer.write(last))
    equal(writeAgain(), 'LOG_SEALED', 'a write before the seal is stored')
    await sealed
    equal(writeAgain(), 'LOG_SEALED', 'a write after it')
    await rejects((async () => writer.seal(last))(), 'LOG_SEALED', 'another seal')
    await writer.flush()
    await given.checkComplete()
  },
  'L3 an invalid record is RECORD_INVALID immediately and changes nothing': async (given, name) => {
    const writer = openWriter(given)
    for (const [at, each] of entries(name, 1, 5).entries()) {
      for (const wrong of WRONG[name] as NewRecord[]) {
        const what = `a record that is ${JSON.stringify(wrong)}`
        equal(
          thrownBy(() => writer.write(wrong)),
          'RECORD_INVALID',
          what,
        )
        const seal = (async () => writer.seal(wrong))()
        await rejects(seal, 'RECORD_INVALID', `the seal with ${what}`)
      }
      writer.write(each)
      if (at % 2 === 0) await writer.flush()
    }
    await finish(given, writer, 6)
  },
  'L3 a closed writer stores nothing more and calls no callback': async (given, name) => {
    const reports = new Reports()
    const writer = openWriter(given, reports)
    write(writer, entries(name, 1, 2))
    await writer.flush()
    const before = reports.calls
    const wrong = [7, 8, 9].map((seq) => entryOf(name, 'turn', recordAt(name, seq)))
    write(writer, entries(name, 3, 4))
    writer.close()
    write(writer, wrong)
    await writer.room()
    // Stored or not: it may have been in flight.
    await soon(writer.flush()).catch(() => {})
    writer.close()
    await finish(given, openWriter(given, { next: 3 }), 3)
    equal(reports.calls, before, 'the number of calls')
  },
  'L1 a writer of a deleted turn or a closed store fails': async (given, name) => {
    const { log } = given
    const fails = async (writer: Writer, end: () => Promise<unknown>, code: string) => {
      writer.write(entry(name, 1))
      await writer.flush()
      await end()
      writer.write(entry(name, 2))
      await rejects(writer.flush(), code, 'a flush afterwards')
    }
    await fails(openWriter(given), () => log.deleteTurn('turn'), 'LEASE_LOST')
    await fails(log.open(await given.create('turn'), name), () => log.close(), 'STORE_CLOSED')
  },
})
