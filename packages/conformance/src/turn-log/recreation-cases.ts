import { LOG_NAMES, type LogName } from '@turnstream/core/internal/log/turn-log'
import type { TextRecord } from './append.ts'
import { equal, rejects } from './assert.ts'
import { type Cases, type Given, GivenLog, LONG_MS, ofEachLog, ofLog, soon } from './given.ts'
import { nextOf, readAll, texts } from './reading.ts'
import { deltas, eventsUpTo, message, outputsOf } from './texts.ts'

/** Records whose text shows which turn with this id they belong to. */
function recordsOf(name: LogName, text: string, first: number, last: number): TextRecord[] {
  if (name === 'events') return deltas(text, first, last)
  return deltas(text, first, last).map(({ seq }) => ({
    seq,
    data: message('turn', `item-${seq}`, `${text} ${seq}`),
  }))
}

function writeOld(given: GivenLog, first: number, last: number): Promise<string> {
  return given.write(recordsOf(given.name, 'old', first, last))
}

function sealOld(given: GivenLog, seq: number): Promise<string> {
  const { name } = given
  const end = name === 'events' ? eventsUpTo('turn', seq, seq) : recordsOf(name, 'old', seq, seq)
  return given.write(end, { seal: true })
}

function writeNew(recreated: GivenLog, first: number, last: number): Promise<string> {
  return recreated.write(recordsOf(recreated.name, 'new', first, last))
}

/** Deletes the turn and creates it again, in another process where possible. */
async function recreate(given: GivenLog, other?: Given): Promise<GivenLog> {
  const place = other ?? (await given.elsewhere())
  await place.log.deleteTurn('turn')
  const lease = await place.create('turn', { threadId: 'again', owner: 'other' })
  return new GivenLog(place, given.name, lease)
}

/** Checks what a new reader gets of the turn. */
async function checkNew(given: GivenLog, count: number): Promise<void> {
  const expected = recordsOf(given.name, 'new', 1, count)
  equal(texts(await given.first(count)), texts(expected), 'the records of the new turn')
}

/** A turn is deleted and recreated with the same ids while others still use the first. */
export const recreationCases: Cases = {
  ...ofEachLog({
    'L3 the lease of a deleted turn cannot write to a recreated one': async (given) => {
      await writeOld(given, 1, 3)
      const recreated = await recreate(given)
      await writeNew(recreated, 1, 1)
      // The next record, a repetition, one that would fit, and the end.
      for (const [first, last] of [
        [4, 4],
        [1, 1],
        [2, 2],
        [2, 5],
      ] as const) {
        await rejects(writeOld(given, first, last), 'LEASE_LOST', `records ${first} to ${last}`)
      }
      await rejects(sealOld(given, 4), 'LEASE_LOST', 'a seal')
      await writeNew(recreated, 2, 3)
      await checkNew(given, 3)
    },
    'L3 nor can the first lease after another process ended the turn': async (given) => {
      const other = await given.elsewhere()
      await given.expire()
      for (const seq of [1, 2]) await writeOld(given, seq, seq)
      await given.seal(await other.log.claim('turn', 'heir', LONG_MS))
      const recreated = await recreate(given, other)
      await writeNew(recreated, 1, 1)
      for (const seq of [3, 2]) {
        await rejects(writeOld(given, seq, seq), 'LEASE_LOST', `record ${seq}`)
      }
      await writeNew(recreated, 2, 2)
      await checkNew(given, 2)
    },
    'L3 a lease that sealed a log stays lost after a recreation': async (given) => {
      await writeOld(given, 1, 2)
      await sealOld(given, 3)
      const recreated = await recreate(given)
      const late = async (seq: number) => {
        await rejects(writeOld(given, seq, seq), 'LEASE_LOST', `record ${seq}`)
        await rejects(given.log.renew(given.lease, LONG_MS), 'LEASE_LOST', 'a renewal')
      }
      for (const seq of [4, 1, 1, 4, 1]) await late(seq)
      await writeNew(recreated, 1, 1)
      for (const seq of [2, 2, 4, 2]) await late(seq)
      await writeNew(recreated, 2, 2)
      await checkNew(given, 2)
    },
    'L10 a reader of a recreated turn gets TURN_DELETED, nothing new': async (given) => {
      await writeOld(given, 1, 2)
      const waiting = given.iterator()
      const slow = given.iterator()
      for (let count = 0; count < 2; count += 1) await nextOf(waiting)
      const waits = soon(waiting.next())
      await nextOf(slow)
      await writeNew(await recreate(given), 1, 4)
      await checkNew(given, 4)
      await rejects(waits, 'TURN_DELETED', 'a tail that waits')
      const rest = readAll({ [Symbol.asyncIterator]: () => slow })
      await rejects(rest, 'TURN_DELETED', 'a tail between two records')
    },
    'L10 a recreated turn has its own readers besides the old ones': async (given) => {
      await given.seal(given.lease)
      const slow = given.iterator()
      await nextOf(slow)
      await writeNew(await recreate(given), 1, 4)
      await checkNew(given, 4)
      await slow.return?.()
    },
  }),
  ...ofLog('events', {
    'L1 the lease of a deleted turn is lost, even if the turn was recreated': async (given) => {
      const { log, lease, signal } = given
      const waits = soon(log.cancelled(lease, signal))
      const recreated = await recreate(given)
      await rejects(waits, 'LEASE_LOST', 'waiting for a cancel')
      await recreated.log.requestCancel('turn', 'meant for the new one')
      await rejects(log.cancelled(lease, signal), 'LEASE_LOST', 'a cancel')
      await rejects(log.renew(lease, LONG_MS), 'LEASE_LOST', 'a renewal')
    },
  }),
  ...ofLog('processed', {
    'L6 a recreated turn has its own state while the old one is still read': async (given) => {
      await given.write(outputsOf('turn', 'abc').slice(0, 4))
      const slow = given.iterator()
      await nextOf(slow)
      const recreated = await recreate(given)
      await writeNew(recreated, 1, 2)
      const { records, offset } = await given.log.snapshot('turn')
      equal(texts(records), texts(recordsOf('processed', 'new', 1, 2)), 'the records')
      equal(offset, `${recreated.lease.epoch}-2`, 'the cursor')
      await slow.return?.()
    },
  }),
  'L10 a recreated thread is distinguished from the deleted one': async (given, log) => {
    const other = await given.elsewhere()
    const creations = new Set<string>()
    for (let count = 0; count < 3; count++) {
      const { creation } = await log.putThread({ threadId: 'thread' })
      creations.add(creation)
      await given.createSealed(`turn-${count}`, { threadId: 'thread' })
      equal((await other.log.getThread('thread'))?.creation, creation, 'with a turn')
      await other.log.deleteThread('thread')
      await given.create(`turn-${count}`, { threadId: 'thread' })
      creations.add((await other.log.getThread('thread'))?.creation ?? '')
      await log.deleteThread('thread')
    }
    equal(creations.size, 6, 'how many threads there were')
  },
  'L1 a claimed lease belongs to the same turn': async (given) => {
    await given.createOrphan('turn')
    const heir = await given.log.claim('turn', 'heir', LONG_MS)
    await given.log.renew(heir, LONG_MS)
    await given.log.deleteTurn('turn')
    await given.createOrphan('turn')
    const lease = await given.log.claim('turn', 'other', LONG_MS)
    for (const name of LOG_NAMES) {
      const late = given.append(heir, name, recordsOf(name, 'old', 1, 1))
      await rejects(late, 'LEASE_LOST', `an append to ${name}`)
    }
    await rejects(given.log.renew(heir, LONG_MS), 'LEASE_LOST', 'a renewal')
    await given.seal(lease)
  },
}
