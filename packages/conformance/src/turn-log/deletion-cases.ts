import { equal, ok, rejects } from './assert.ts'
import { type Cases, LONG_MS, ofEachLog, RETENTION_MS, soon, withRetention } from './given.ts'
import { nextOf, readAll, threadIdsOf } from './reading.ts'
import { counted, delta, deltas, eventsUpTo, outputsOf } from './texts.ts'

/** Where something is read before it expires, in real time too. */
const LONGER_RETENTION_MS = 2 * RETENTION_MS

/** Incompressible text, so that a store that compresses needs space for it too. */
function noise(chars: number): string {
  let text = ''
  while (text.length < chars) text += Math.random().toString(36).slice(2, 12)
  return text
}

export const deletionCases: Cases = {
  ...ofEachLog({
    'L10 deleting a turn ends all its readers with TURN_DELETED': async (given, name) => {
      const written = name === 'events' ? deltas('turn', 1, 3) : outputsOf('turn', 'a')
      await given.write(written)
      const waiting = given.iterator()
      for (const { data } of written) equal((await nextOf(waiting)).data, data, 'a record')
      const waits = soon(waiting.next())
      const busy = given.iterator()
      await nextOf(busy)
      equal(await given.log.deleteTurn('turn'), true, 'the answer')
      await rejects(waits, 'TURN_DELETED', 'a tail that waits')
      // A record already in the reader's hands may still come before the error.
      const rest = readAll({ [Symbol.asyncIterator]: () => busy })
      await rejects(rest, 'TURN_DELETED', 'a tail between two records')
      await rejects(readAll(given.follow()), 'TURN_UNKNOWN', 'a new tail')
    },
    'L10 deleting a turn in one process ends its readers in another': async (given, name) => {
      const other = await given.elsewhere()
      const written = name === 'events' ? deltas('turn', 1, 1) : outputsOf('turn', 'a').slice(0, 1)
      await given.write(written)
      const reader = other.iterate('turn', name)
      await nextOf(reader)
      const waits = soon(reader.next())
      await given.log.deleteTurn('turn')
      await rejects(waits, 'TURN_DELETED', 'a tail in another process')
    },
  }),
  'L10 a deleted turn leaves nothing behind, and its ids can be reused': async (given, log) => {
    const turn = { threadId: 'thread', runId: 'run' }
    await given.createSealed('turn', turn)
    equal(await log.deleteTurn('turn'), true, 'the answer')
    equal(await log.deleteTurn('turn'), false, 'the second answer')
    equal(await log.getTurn('turn'), undefined, 'the turn')
    equal(await log.getTurnOfRun('run'), undefined, 'the turn of the run')
    equal((await log.listTurns('thread')).items, [], 'the turns of the thread')
    await rejects(log.snapshot('turn'), 'TURN_UNKNOWN', 'a snapshot')
    await rejects(log.requestCancel('turn', 'x'), 'TURN_UNKNOWN', 'a cancel')
    const lease = await given.create('turn', turn)
    equal([lease.epoch, lease.next], [1, { events: 1, processed: 1 }], 'the new lease')
    equal((await log.getTurn('turn'))?.ordinal, 2, 'the ordinal')
    await given.append(lease, 'events', eventsUpTo('run', 2), { seal: true })
    equal((await given.read('turn', 'events')).length, 2, 'the records of the new turn')
  },
  'L10 a deleted turn can be recreated with another run id': async (given) => {
    await given.createSealed('turn', { runId: 'first' })
    await given.log.deleteTurn('turn')
    await given.createSealed('turn', { runId: 'second' })
    equal((await given.read('turn', 'events')).length, 2, 'the records of the new turn')
    equal((await given.log.getTurnOfRun('second'))?.turnId, 'turn', 'the turn of the run')
    equal(await given.log.getTurnOfRun('first'), undefined, 'the turn of the first run')
  },
  'L10 deleting a thread removes it and its turns, open or not': async (given, log) => {
    await given.createSealed('turn-1', { threadId: 'thread' })
    const lease = await given.create('turn-2', { threadId: 'thread' })
    await given.create('other', { threadId: 'other' })
    const waits = soon(readAll(given.tail('turn-2', 'events')))
    await given.append(lease, 'events', deltas('turn-2', 1, 1))
    equal(await log.deleteThread('thread'), true, 'the answer')
    equal(await log.deleteThread('thread'), false, 'the second answer')
    await rejects(waits, 'TURN_DELETED', 'a tail')
    await rejects(given.append(lease, 'events', deltas('turn-2', 2, 2)), 'LEASE_LOST', 'an append')
    for (const turnId of ['turn-1', 'turn-2']) equal(await log.getTurn(turnId), undefined, turnId)
    equal(await log.getThread('thread'), undefined, 'the thread')
    equal(await log.listTurns('thread'), { items: [] }, 'its turns')
    const { items } = await log.listThreads()
    equal(threadIdsOf(items), ['other'], 'the threads')
    equal((await given.create('turn-1', { threadId: 'thread' })).epoch, 1, 'the epoch')
    equal((await log.getTurn('turn-1'))?.ordinal, 1, 'the ordinal in the new thread')
  },
  'L10 the logs of a sealed turn expire, its record later, and open turns never': withRetention(
    LONGER_RETENTION_MS,
    async (given, log) => {
      const open = await given.create('open', {}, LONG_MS)
      await given.append(open, 'events', deltas('open', 1, 2))
      const half = await given.create('half', {}, LONG_MS)
      await given.append(half, 'events', eventsUpTo('half', 2), { seal: true })
      await given.createSealed('done', { threadId: 'thread', runId: 'run' })
      const before = await log.getTurn('done')
      equal((await given.read('done', 'events')).length, 2, 'the records before')
      await given.under.elapse(LONGER_RETENTION_MS * 1.5)
      await rejects(readAll(given.tail('done', 'events')), 'TURN_EXPIRED', 'a tail of events')
      await rejects(readAll(given.tail('done', 'processed')), 'TURN_EXPIRED', 'a tail of processed')
      await rejects(log.snapshot('done'), 'TURN_EXPIRED', 'a snapshot')
      const after = { ...before, expired: true }
      equal(await log.getTurn('done'), after, 'the record')
      equal(await log.getTurnOfRun('run'), after, 'the record of the run')
      equal((await log.listTurns('thread')).items, [after], 'the listed record')
      await given.under.elapse(LONGER_RETENTION_MS * 3)
      equal(await log.getTurn('done'), undefined, 'the record in the end')
      equal(await log.getTurnOfRun('run'), undefined, 'the record of the run in the end')
      equal((await log.listTurns('thread')).items, [], 'the listed records in the end')
      await rejects(readAll(given.tail('done', 'events')), 'TURN_UNKNOWN', 'a tail in the end')
      for (const turnId of ['open', 'half']) {
        equal((await given.take(turnId, 'events', 2)).length, 2, `the records of ${turnId}`)
        equal((await log.getTurn(turnId))?.expired, false, `expired, of ${turnId}`)
      }
      await given.append(open, 'events', eventsUpTo('open', 3, 3), { seal: true })
      await given.createSealed('again', { threadId: 'thread', runId: 'run' })
    },
  ),
  'L10 a thread expires when it has no turns and was not changed for the retention': withRetention(
    RETENTION_MS,
    async (given, log) => {
      const first = await log.putThread({ threadId: 'empty', title: 'T', metadata: { a: 1 } })
      await given.createSealed('done', { threadId: 'used' })
      await given.create('open', { threadId: 'busy' }, LONG_MS)
      const idle = given.ofTenant('idle')
      await idle.log.putThread({ threadId: 'empty' })
      await idle.createSealed('done', { threadId: 'used' })
      const listed = async () => {
        const { items } = await log.listThreads()
        return threadIdsOf(items).toSorted()
      }
      await given.under.elapse(RETENTION_MS * 1.5)
      equal(await log.getThread('empty'), undefined, 'a thread without turns')
      equal(await listed(), ['busy', 'used'], 'the threads with turns')
      const again = await log.putThread({ threadId: 'empty' })
      ok(again.creation !== first.creation, 'an expired thread came back')
      equal((await log.getThread('empty'))?.title, undefined, 'the title of the new thread')
      await given.under.elapse(RETENTION_MS * 4.5)
      equal(await log.getThread('used'), undefined, 'a thread whose turns are gone')
      equal(await listed(), ['busy'], 'the thread with an open turn')
      equal((await idle.log.listThreads()).items, [], 'the threads of a tenant that was idle')
      equal(await log.deleteThread('used'), false, 'deleting an expired thread')
      await given.createSealed('next', { threadId: 'used' })
      equal((await log.listTurns('used')).items.length, 1, 'the turns of the new thread')
      equal(await listed(), ['busy', 'used'], 'the threads in the end')
    },
  ),
  'L10 storedBytes grows with writes and shrinks with deletions': async (given, log) => {
    const empty = await log.storedBytes()
    const lease = await given.create('turn')
    const records = counted(1, 8, (seq) => delta('turn', seq, noise(250_000)))
    for (const record of records) await given.append(lease, 'events', [record])
    const full = await log.storedBytes()
    ok(full - empty > 1_000_000, `2 MB of text made ${full} bytes of ${empty}`)
    await log.deleteTurn('turn')
    const left = await log.storedBytes()
    ok(left < full - 1_000_000, `after the deletion ${left} of ${full} bytes are left`)
  },
}
