import { type Lease, LOG_NAMES, type Orphan } from '@turnstream/core/internal/log/turn-log'
import { equal, rejects } from './assert.ts'
import { type Cases, LONG_MS, RETENTION_MS, SHORT_MS, soon, withRetention } from './given.ts'
import { readAll } from './reading.ts'
import { both, stateOf, writeText } from './tenants.ts'
import { deltas, eventsUpTo } from './texts.ts'

function sorted(orphans: readonly Orphan[]): string[] {
  return orphans.map(({ tenant, turnId }) => `${tenant}/${turnId}`).toSorted()
}

/** What concerns all tenants of a store: orphans, restart, close, retention. */
export const tenantStoreCases: Cases = {
  'L13 orphans lists the turns of all tenants, expired those of one': async (given) => {
    const all = ['default', 'beta', 'gamma'].map((tenant) => given.ofTenant(tenant))
    for (const [at, each] of all.entries()) {
      await each.create('held')
      await each.create('turn', {}, SHORT_MS)
      await each.create(`turn-${at}`, {}, SHORT_MS)
    }
    await given.under.elapse(SHORT_MS)
    const expected = ['beta/turn', 'beta/turn-1', 'default/turn', 'default/turn-0', 'gamma/turn']
    for (const [at, { log }] of all.entries()) {
      equal(sorted(await log.orphans(10)), [...expected, 'gamma/turn-2'], 'the orphans')
      equal((await log.orphans(4)).length, 4, 'the number of four orphans')
      equal((await log.expired(10)).toSorted(), ['turn', `turn-${at}`], 'its own')
      equal((await log.expired(1)).length, 1, 'the number of one of its own')
    }
    await all[1]?.log.claim('turn', 'heir', LONG_MS)
    await all[2]?.log.deleteTurn('turn-2')
    const rest = expected.filter((each) => each !== 'beta/turn')
    equal(sorted(await given.log.orphans(10)), rest, 'the orphans after a claim and a deletion')
    equal(await all[1]?.log.expired(10), ['turn-1'], 'those of one tenant after the claim')
  },
  'L13 after a restart every tenant has its data, and its orphans are listed': async (given) => {
    const tenants = ['default', 'beta', 'gamma']
    const before: unknown[] = []
    for (const tenant of tenants) {
      const each = given.ofTenant(tenant)
      await writeText(each, 'turn', `text of ${tenant}`)
      const open = await each.create('open', {}, SHORT_MS)
      await each.append(open, 'events', deltas('open', 1, 5))
      before.push(await stateOf(each))
    }
    const again = await given.reopened()
    await given.under.elapse(SHORT_MS)
    const orphans = sorted(await again.log.orphans(10)).filter((each) => each.endsWith('/open'))
    equal(orphans, ['beta/open', 'default/open', 'gamma/open'], 'the orphans')
    for (const [at, tenant] of tenants.entries()) {
      const own = again.ofTenant(tenant)
      equal(await stateOf(own), before[at], `what ${tenant} has after the restart`)
      const lease = await own.log.claim('open', 'heir', LONG_MS)
      equal(lease.next, { events: 6, processed: 1 }, 'what comes next')
      await own.append(lease, 'events', eventsUpTo('open', 6, 6), { seal: true })
      equal((await own.read('open', 'events')).length, 6, 'all')
    }
  },
  'L13 closing the log of any tenant closes the store for all': async (given) => {
    const all = ['default', 'beta', 'gamma'].map((tenant) => given.ofTenant(tenant))
    const reading: Promise<unknown>[] = []
    const leases = await Promise.all(all.map((each) => each.create('turn')))
    for (const each of all) {
      for (const name of LOG_NAMES) {
        const tail = each.tail('turn', name)
        reading.push(soon(readAll(tail)))
        await tail.caughtUp
      }
    }
    // The other logs have more work than the closed one.
    const counts = [600, 1, 600]
    const writing = all.flatMap((each, at) =>
      deltas('turn', 1, counts[at] ?? 0).map((record) =>
        soon(each.append(leases[at] as Lease, 'events', [record])),
      ),
    )
    await Promise.all([all[1]?.log.close(), all[2]?.log.close()])
    await Promise.all(writing)
    for (const tail of reading) await rejects(tail, 'STORE_CLOSED', 'a tail')
    for (const { log } of all) {
      await rejects(log.getTurn('turn'), 'STORE_CLOSED', 'a call')
      await rejects((async () => log.ofTenant('delta'))(), 'STORE_CLOSED', 'a tenant')
      await log.close()
    }
  },
  "L10 L13 logs expire by the ends of each tenant's own turns, and records later": withRetention(
    RETENTION_MS,
    async (given) => {
      const [first, second] = both(given)
      await first.create('turn', { threadId: 'thread' })
      await second.createSealed('turn', { threadId: 'thread', runId: 'run' })
      await given.under.elapse(RETENTION_MS * 1.5)
      await rejects(readAll(second.tail('turn', 'events')), 'TURN_EXPIRED', 'a tail')
      equal((await second.log.getTurnOfRun('run'))?.expired, true, 'that the turn has expired')
      equal((await first.log.getTurn('turn'))?.expired, false, 'that the other has expired')
      await given.under.elapse(RETENTION_MS * 3)
      equal(await second.log.getTurn('turn'), undefined, 'the record')
      equal((await second.log.listTurns('thread')).items, [], 'the turns of the thread')
      equal((await first.log.getTurn('turn'))?.status, 'in_progress', 'the open turn')
      await second.createSealed('turn', { threadId: 'thread', runId: 'run' })
    },
  ),
}
