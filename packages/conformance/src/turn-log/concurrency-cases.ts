import type { LogRecord, OutputRecord, Tailed } from '@turnstream/core/internal/log/turn-log'
import { hasCode } from '@turnstream/core/internal/protocol/errors'
import type { TextRecord } from './append.ts'
import { equal, ok } from './assert.ts'
import { type Cases, type Given, GivenLog, ofEachLog, START, soon } from './given.ts'
import { checkAgainstModel } from './model-case.ts'
import { forSeeds, type Random } from './random.ts'
import { checkStates, texts, toRecords } from './reading.ts'
import { eventsUpTo, outputsOf } from './texts.ts'

const COUNT = 120

interface Reader {
  readonly after: number
  readonly reading: Promise<LogRecord[]>
}

async function newTurn(given: GivenLog, { seed }: Random): Promise<GivenLog> {
  return new GivenLog(given, given.name, await given.create(`turn-${seed}`))
}

function recordsOf({ name, lease: { turnId } }: GivenLog, random: Random): TextRecord[] {
  const items = Array.from({ length: COUNT - 2 }, () => random.pick(['a', 'b', 'c', 'd', 'e']))
  return name === 'events' ? eventsUpTo(turnId, COUNT) : outputsOf(turnId, items.join(''))
}

/** Appends of random size, sometimes awaited, while readers join from the start or with a cursor. */
async function writeAmongReaders(turn: GivenLog, records: readonly TextRecord[], random: Random) {
  const places = [turn, await turn.elsewhere()] as const
  const readers: Reader[] = []
  const appends: Promise<string>[] = []
  let acknowledged = 0
  for (let at = 0; at < records.length; ) {
    if (random.oneIn(3)) {
      const after = random.oneIn(2) ? 0 : random.below(acknowledged + 1)
      const cursor = after === 0 ? START : `1-${after}`
      const reading = random.pick(places).read(turn.lease.turnId, turn.name, cursor)
      readers.push({ after, reading: soon(reading) })
    }
    const part = records.slice(at, at + 1 + random.below(8))
    at += part.length
    const append = turn.write(part, { seal: at === records.length })
    appends.push(soon(append))
    if (random.oneIn(4)) {
      await append
      acknowledged = at
    } else if (random.oneIn(2)) await Promise.resolve()
  }
  await Promise.all(appends)
  return readers
}

/** Waits for a few store calls. How many internal steps that takes depends on the store. */
async function pause({ log }: Given, answers: number): Promise<void> {
  for (let count = 0; count < answers; count++) await log.getTurn('unknown')
}

/** A turn is listed in its thread, or neither exists. */
async function checkThreadOf({ log }: Given, turnId: string, threadId: string): Promise<void> {
  const turn = await log.getTurn(turnId)
  const { items } = await log.listTurns(threadId)
  const listed = items.some((each) => each.turnId === turnId)
  equal(listed, turn !== undefined, `${turnId} listed`)
  if (listed) ok((await log.getThread(threadId)) !== undefined, `${turnId} is without its thread`)
}

/** Creates a turn while its thread is deleted, and sometimes writes it to its end. */
async function createMeanwhile(given: Given, turnId: string, threadId: string, isSealed: boolean) {
  try {
    const lease = await given.create(turnId, { threadId })
    if (isSealed) await given.seal(lease)
  } catch (error) {
    if (!hasCode(error, 'THREAD_BUSY') && !hasCode(error, 'LEASE_LOST')) throw error
  }
}

export const concurrencyCases: Cases = {
  ...ofEachLog({
    'L2 readers that join at any moment see every record once, in order': async (given, name) => {
      await forSeeds(given.seed, 6, async (random) => {
        const turn = await newTurn(given, random)
        const records = recordsOf(turn, random)
        for (const { after, reading } of await writeAmongReaders(turn, records, random)) {
          const seen = await reading
          if (name === 'processed') checkStates(seen as OutputRecord[], records, after)
          else equal(texts(seen), texts(records.slice(after)), `the records after ${after}`)
        }
      })
    },
    'L2 a reader that disconnects at any moment can resume': async (given, name) => {
      await forSeeds(given.seed, 4, async (random) => {
        const turn = await newTurn(given, random)
        const records = recordsOf(turn, random)
        const written = soon(writeAmongReaders(turn, records, random))
        const seen: Tailed[] = []
        let cursor = START
        while (cursor !== `1-${COUNT}`) {
          // After the case a tail ends at once, and this loop would never end.
          given.signal.throwIfAborted()
          const tail = turn.follow(cursor)
          let left = 1 + random.below(12)
          for await (const each of tail) {
            seen.push(each)
            left -= 1
            if (left === 0) break
          }
          cursor = tail.cursor
        }
        await written
        const all = toRecords(seen)
        if (name === 'events') equal(texts(all), texts(records), 'the records')
        // An interrupted block is repeated, so a record may arrive twice.
        else {
          const once = new Map((all as OutputRecord[]).map((each) => [each.offset, each]))
          checkStates([...once.values()], records)
        }
      })
    },
  }),
  'L10 a turn created while its thread is deleted is never without a thread': async (given) => {
    const places = [given, await given.elsewhere()] as const
    await forSeeds(given.seed, 15, async (random) => {
      const threadId = `thread-${random.seed}`
      const turnIds = ['a', 'b', 'c', 'd'].map((name) => `turn-${name}-${random.seed}`)
      const [first = '', ...rest] = turnIds
      await createMeanwhile(given, first, threadId, random.oneIn(2))
      const made = rest.map(async (turnId) => {
        const on = random.pick(places)
        const isSealed = random.oneIn(2)
        await pause(on, random.below(12))
        await createMeanwhile(on, turnId, threadId, isSealed)
      })
      const deletions = places.map(async (on) => {
        await pause(on, random.below(8))
        await on.log.deleteThread(threadId)
      })
      await Promise.all([...made, ...deletions])
      for (const turnId of turnIds) await checkThreadOf(given, turnId, threadId)
      await given.log.deleteThread(threadId)
      for (const turnId of turnIds) equal(await given.log.getTurn(turnId), undefined, turnId)
    })
  },
  'L1 random calls give the same results as a model of the contract': (given) =>
    forSeeds(given.seed, 3, (random) => checkAgainstModel(given, random)),
}
