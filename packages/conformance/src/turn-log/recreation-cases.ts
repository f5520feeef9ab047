import {
  type Lease,
  LOG_NAMES,
  type LogName,
  type TurnLog,
} from '@turnstream/core/internal/log/turn-log'
import { appendTo, type TextRecord } from './append.ts'
import { equal, rejects } from './assert.ts'
import {
  type Cases,
  type Given,
  LONG_MS,
  nextOf,
  ofEachLog,
  readAll,
  soon,
  texts,
} from './given.ts'
import { deltas, eventsUpTo, message, outputsOf } from './texts.ts'

/** Records whose text shows which turn with this id they belong to. */
function recordsOf(name: LogName, text: string, first: number, last: number): TextRecord[] {
  if (name === 'events') return deltas(text, first, last)
  return deltas(text, first, last).map(({ seq }) => ({
    seq,
    data: message('turn', `item-${seq}`, `${text} ${seq}`),
  }))
}

/** Deletes the turn and creates it again, in another process where possible. */
async function recreate(other: TurnLog): Promise<Lease> {
  await other.deleteTurn('turn')
  return other.create({ turnId: 'turn', threadId: 'again', owner: 'other' }, LONG_MS)
}

/** Checks what a new reader gets of the turn. */
async function checkNew(given: Given, name: LogName, count: number): Promise<void> {
  const written = await given.take('turn', name, count)
  equal(texts(written), texts(recordsOf(name, 'new', 1, count)), 'the records of the new turn')
}

/** A turn is deleted and recreated with the same ids while others still use the first. */
export const recreationCases: Cases = {
  ...ofEachLog({
    'L3 the lease of a deleted turn cannot write to a recreated one': async (given, name) => {
      const other = await given.elsewhere()
      const old = await given.create('turn')
      await given.append(old, name, recordsOf(name, 'old', 1, 3))
      const lease = await recreate(other)
      await appendTo(other, lease, name, recordsOf(name, 'new', 1, 1))
      // The next record, a repetition, one that would fit, and the end.
      for (const [first, last] of [
        [4, 4],
        [1, 1],
        [2, 2],
        [2, 5],
      ] as const) {
        const late = given.append(old, name, recordsOf(name, 'old', first, last))
        await rejects(late, 'LEASE_LOST', `records ${first} to ${last}`)
      }
      const end = name === 'events' ? eventsUpTo('old', 4, 4) : recordsOf(name, 'old', 4, 4)
      await rejects(given.append(old, name, end, { seal: true }), 'LEASE_LOST', 'a seal')
      await appendTo(other, lease, name, recordsOf(name, 'new', 2, 3))
      await checkNew(given, name, 3)
    },
    'L3 nor can the first lease after another process ended the turn': async (given, name) => {
      const other = await given.elsewhere()
      const first = await given.createOrphan('turn')
      await given.append(first, name, recordsOf(name, 'old', 1, 1))
      await given.append(first, name, recordsOf(name, 'old', 2, 2))
      await given.seal(await other.claim('turn', 'heir', LONG_MS))
      const lease = await recreate(other)
      await appendTo(other, lease, name, recordsOf(name, 'new', 1, 1))
      for (const seq of [3, 2]) {
        const late = given.append(first, name, recordsOf(name, 'old', seq, seq))
        await rejects(late, 'LEASE_LOST', `record ${seq}`)
      }
      await appendTo(other, lease, name, recordsOf(name, 'new', 2, 2))
      await checkNew(given, name, 2)
    },
    'L3 a lease that sealed a log stays lost after a recreation': async (given, name) => {
      const other = await given.elsewhere()
      const old = await given.create('turn')
      await given.append(old, name, recordsOf(name, 'old', 1, 2))
      const end = name === 'events' ? eventsUpTo('turn', 3, 3) : recordsOf(name, 'old', 3, 3)
      await given.append(old, name, end, { seal: true })
      const lease = await recreate(other)
      const late = async (seq: number) => {
        const append = given.append(old, name, recordsOf(name, 'old', seq, seq))
        await rejects(append, 'LEASE_LOST', `record ${seq}`)
        await rejects(given.log.renew(old, LONG_MS), 'LEASE_LOST', 'a renewal')
      }
      for (const seq of [4, 1, 1, 4, 1]) await late(seq)
      await appendTo(other, lease, name, recordsOf(name, 'new', 1, 1))
      for (const seq of [2, 2, 4, 2]) await late(seq)
      await appendTo(other, lease, name, recordsOf(name, 'new', 2, 2))
      await checkNew(given, name, 2)
    },
    'L10 a reader of a recreated turn gets TURN_DELETED, nothing new': async (given, name) => {
      const other = await given.elsewhere()
      const old = await given.create('turn')
      await given.append(old, name, recordsOf(name, 'old', 1, 2))
      const waiting = given.iterate('turn', name)
      const slow = given.iterate('turn', name)
      for (let count = 0; count < 2; count += 1) await nextOf(waiting)
      const waits = soon(waiting.next())
      await nextOf(slow)
      const lease = await recreate(other)
      await appendTo(other, lease, name, recordsOf(name, 'new', 1, 4))
      await checkNew(given, name, 4)
      await rejects(waits, 'TURN_DELETED', 'a tail that waits')
      const rest = readAll({ [Symbol.asyncIterator]: () => slow })
      await rejects(rest, 'TURN_DELETED', 'a tail between two records')
    },
    'L10 a recreated turn has its own readers besides the old ones': async (given, name) => {
      const other = await given.elsewhere()
      const old = await given.create('turn')
      await given.seal(old)
      const slow = given.iterate('turn', name)
      await nextOf(slow)
      const lease = await recreate(other)
      await appendTo(other, lease, name, recordsOf(name, 'new', 1, 4))
      await checkNew(given, name, 4)
      await slow.return?.()
    },
  }),
  'L10 a recreated thread is distinguished from the deleted one': async (given) => {
    const { log } = given
    const other = await given.elsewhere()
    const creations = new Set<string>()
    for (let count = 0; count < 3; count++) {
      const { creation } = await log.putThread({ threadId: 'thread' })
      creations.add(creation)
      await given.createSealed(`turn-${count}`, { threadId: 'thread' })
      equal((await other.getThread('thread'))?.creation, creation, 'with a turn')
      await other.deleteThread('thread')
      await given.create(`turn-${count}`, { threadId: 'thread' })
      creations.add((await other.getThread('thread'))?.creation ?? '')
      await log.deleteThread('thread')
    }
    equal(creations.size, 6, 'how many threads there were')
  },
  'L1 the lease of a deleted turn is lost, even if the turn was recreated': async (given) => {
    const other = await given.elsewhere()
    const old = await given.create('turn')
    const waits = soon(given.log.cancelled(old, given.signal))
    await recreate(other)
    await rejects(waits, 'LEASE_LOST', 'waiting for a cancel')
    await other.requestCancel('turn', 'meant for the new one')
    await rejects(given.log.cancelled(old, given.signal), 'LEASE_LOST', 'a cancel')
    await rejects(given.log.renew(old, LONG_MS), 'LEASE_LOST', 'a renewal')
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
  'L6 a recreated turn has its own state while the old one is still read': async (given) => {
    const other = await given.elsewhere()
    const old = await given.create('turn')
    await given.append(old, 'processed', outputsOf('turn', 'abc').slice(0, 4))
    const slow = given.iterate('turn', 'processed')
    await nextOf(slow)
    const lease = await recreate(other)
    await appendTo(other, lease, 'processed', recordsOf('processed', 'new', 1, 2))
    const { records, offset } = await given.log.snapshot('turn')
    equal(texts(records), texts(recordsOf('processed', 'new', 1, 2)), 'the records')
    equal(offset, `${lease.epoch}-2`, 'the cursor')
    await slow.return?.()
  },
}
