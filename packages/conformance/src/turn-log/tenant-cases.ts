import { type Lease, LOG_NAMES } from '@turnstream/core/internal/log/turn-log'
import { equal, ok, rejects } from './assert.ts'
import { type Cases, LONG_MS, SHORT_MS, soon } from './given.ts'
import { pagesOf, readAll, texts, threadIdsOf } from './reading.ts'
import { both, stateOf, writeText } from './tenants.ts'
import { counted, delta, deltas, eventsUpTo, message } from './texts.ts'

/** Tenant names, some of which are also words in store keys. */
const TENANTS = 'beta b-2_ 0 run turn thread threads leases format'.split(' ')

const NOT_TENANTS = ['', ' ', 'be ta', 'b\n', ...'Beta be:ta be{ta} bé -b _b __proto__'.split(' ')]

export const tenantCases: Cases = {
  'L13 a tenant gets the same log object from every log of the store': async ({ log }) => {
    const beta = log.ofTenant('beta')
    ok(log.ofTenant('beta') === beta, 'the second time it is another log')
    ok(beta.ofTenant('beta') === beta, 'its own name leads from it to another log')
    ok(log.ofTenant('gamma').ofTenant('beta') === beta, 'from another tenant it is another log')
    ok(beta.ofTenant('default') === log.ofTenant('default'), 'there are two logs of default')
    await log.ofTenant('gamma').putThread({ threadId: 'thread' })
    equal(await beta.getThread('thread'), undefined, 'the thread of another tenant')
  },
  'L13 an invalid tenant name is OPTION_INVALID': async ({ log }) => {
    for (const name of [...NOT_TENANTS, 'b'.repeat(65)]) {
      const opened = (async () => log.ofTenant(name))()
      await rejects(opened, 'OPTION_INVALID', `the tenant ${JSON.stringify(name)}`)
    }
    await log.ofTenant('b'.repeat(64)).putThread({ threadId: 'thread' })
  },
  'L13 the same ids coexist in any number of tenants and reveal no tenant': async (given) => {
    const all = [given, ...TENANTS.map((tenant) => given.ofTenant(tenant))]
    for (const [at, each] of all.entries()) await writeText(each, 'turn', `text of ${at}`)
    for (const [at, each] of all.entries()) {
      const { turn, run, turns, threads, snapshot, events } = await stateOf(each)
      const ids = { turnId: 'turn', runId: 'run', threadId: 'thread', ordinal: 1, epoch: 1 }
      equal(turn, { ...turn, ...ids }, 'the record')
      equal([run, turns.items], [turn, [turn]], 'the record of the run and in the list')
      equal(threadIdsOf(threads.items), ['thread'], 'the threads')
      const expected = [message('turn', 'a', `text of ${at}`)]
      equal(texts(snapshot.records), expected, 'what is in processed')
      equal(events[0]?.data, delta('run', 1, `text of ${at} 1`), 'the first event')
    }
  },
  "L13 TURN_EXISTS and THREAD_BUSY depend on the tenant's own turns only": async (given) => {
    for (const each of both(given)) {
      await each.create('turn', { threadId: 'thread', request: `of ${each === given}` })
    }
    for (const each of both(given)) {
      const made = each.create('turn', { threadId: 'other' })
      const { turn, message: text } = await rejects(made, 'TURN_EXISTS', 'the same turn')
      equal(turn, await each.log.getTurn('turn'), 'the turn that exists')
      ok(!String(text).includes('beta'), `the error names the tenant: ${String(text)}`)
      await rejects(each.create('next', { threadId: 'thread' }), 'THREAD_BUSY', 'the next turn')
    }
    const [first, second] = both(given)
    await first.log.deleteTurn('turn')
    await first.create('next', { threadId: 'thread' })
    await rejects(second.create('next', { threadId: 'thread' }), 'THREAD_BUSY', 'the other one')
  },
  'L13 claims, seals and cancels do not affect the same turn of another': async (given) => {
    const [first, second] = both(given)
    const lost = await first.create('turn', {}, SHORT_MS)
    const other = await second.create('turn')
    await given.under.elapse(SHORT_MS)
    await first.log.claim('turn', 'heir', LONG_MS)
    await rejects(first.append(lost, 'events', deltas('turn', 1, 1)), 'LEASE_LOST', 'the old')
    equal(await second.append(other, 'events', deltas('turn', 1, 1)), '1-1', 'the offset')
    const waits = new AbortController()
    const heard = soon(second.log.cancelled(other, waits.signal))
    await first.log.requestCancel('turn', 'user')
    equal((await second.log.getTurn('turn'))?.cancelReason, undefined, 'the reason')
    await first.log.deleteTurn('turn')
    await first.createSealed('turn')
    equal((await second.log.getTurn('turn'))?.sealed, false, 'that the other is sealed')
    await second.append(other, 'events', deltas('turn', 2, 2))
    await second.log.renew(other, LONG_MS)
    waits.abort()
    await rejects(heard, 'ABORTED', 'listening for a cancel')
  },
  'L13 readers get only what their own tenant writes': async (given) => {
    const all = both(given)
    const reading: Promise<unknown>[] = []
    const leases: Lease[] = []
    for (const each of all) {
      const lease = await each.create('turn')
      leases.push(lease)
      for (const name of LOG_NAMES) reading.push(soon(readAll(each.tail('turn', name))))
      await each.append(lease, 'events', deltas('turn', 1, 1))
    }
    const [first, second] = all
    await first.log.deleteTurn('turn')
    for (const tail of reading.slice(0, 2)) await rejects(tail, 'TURN_DELETED', 'the tail')
    const lease = leases[1]
    ok(lease !== undefined, 'a turn has no lease')
    await second.append(lease, 'events', eventsUpTo('turn', 3, 2), { seal: true })
    const events = await reading[2]
    equal(Array.isArray(events) && events.length, 3, 'the number of events')
  },
  'L13 deleting a turn or thread does not affect those of other tenants': async (given) => {
    const [first, second] = both(given)
    for (const each of [first, second]) await writeText(each, 'turn', 'text')
    await first.log.deleteTurn('turn')
    const before = await second.log.getTurn('turn')
    await first.createSealed('turn', { threadId: 'thread' })
    equal(await first.log.deleteThread('thread'), true, 'the answer')
    equal(await first.log.getThread('thread'), undefined, 'the thread')
    equal(await second.log.getTurn('turn'), before, 'the turn of the other')
    equal((await second.read('turn', 'events')).length, 3, 'its events')
    equal((await second.log.listTurns('thread')).items, [before], 'the turns of its thread')
    equal(await second.log.deleteThread('thread'), true, 'the second answer')
  },
  "L13 listings hold only the tenant's own entries, with any page size": async (given) => {
    const [first, second] = both(given)
    const names = ['c', 'a', 'e', 'b', 'd']
    for (const [at, threadId] of names.entries()) {
      await first.log.putThread({ threadId })
      await given.under.elapse(3)
      await second.log.putThread({ threadId: names.at(-1 - at) ?? '' })
      await given.under.elapse(3)
    }
    for (const turnId of ['t-1', 't-2', 't-3']) {
      await first.createSealed(turnId, { threadId: 'd' })
      if (turnId !== 't-2') await second.createSealed(turnId, { threadId: 'c' })
    }
    for (let limit = 1; limit <= names.length + 1; limit++) {
      const expected = [
        ['d', 'b', 'e', 'a', 'c'],
        ['c', 'a', 'e', 'b', 'd'],
      ]
      for (const [at, each] of [first, second].entries()) {
        const pages = await pagesOf((options) => each.log.listThreads(options), limit)
        const listed = threadIdsOf(pages.flat())
        equal(listed, expected[at], `the threads on pages of ${limit}`)
        for (const { length } of pages) ok(length <= limit, 'a page is too long')
      }
      const turns = await pagesOf((options) => second.log.listTurns('c', options), limit)
      const ids = turns.flat().map(({ turnId, ordinal }) => `${turnId}: ${ordinal}`)
      equal(ids, ['t-1: 1', 't-3: 2'], `the turns on pages of ${limit}`)
    }
    equal((await first.log.listTurns('c')).items, [], 'the turns of a thread without any')
  },
  'L3 L13 tenants that write the same turn each read their own records': async (given) => {
    const all = [given, ...TENANTS.map((tenant) => given.ofTenant(tenant))]
    const written = all.map(async (each, at) => {
      const lease = await each.create('turn')
      const records = counted(1, 300, (seq) => delta('turn', seq, `${at}: ${seq}`))
      await Promise.all(records.map((record) => each.append(lease, 'events', [record])))
      await each.append(lease, 'events', eventsUpTo('turn', 301, 301), { seal: true })
      equal(texts(await each.read('turn', 'events')).slice(0, 300), texts(records), 'the texts')
    })
    await Promise.all(written)
  },
}
