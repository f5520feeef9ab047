import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import { type Lease, LOG_NAMES } from '@turnstream/core/internal/log/turn-log'
import { equal, ok, oneSucceeds, rejects } from './assert.ts'
import { type Cases, LONG_MS, SHORT_MS, soon } from './given.ts'
import { offsets } from './reading.ts'
import { deltas, eventsUpTo, message, outputsOf } from './texts.ts'

export const leaseCases: Cases = {
  'L1 creating a turn returns its first lease, and both logs start at 1': async ({ log }) => {
    const turn = { turnId: 'turn', runId: 'run', threadId: 'thread', owner: 'me' }
    const { until, creation, ...lease } = await log.create(turn, LONG_MS)
    const next = { events: 1, processed: 1 }
    equal(lease, { turnId: 'turn', runId: 'run', epoch: 1, next }, 'the lease')
    ok(Number.isFinite(until), `the lease runs out at ${until}`)
    ok(creation !== '', 'the lease does not say of which creation it is')
  },
  'L1 the run id defaults to the turn id': async (given) => {
    const lease = await given.create('turn')
    equal(lease.runId, 'turn', 'the run')
    equal((await given.log.getTurnOfRun('turn'))?.turnId, 'turn', 'the turn of the run')
  },
  'L1 a claim before the lease expires is LEASE_HELD and changes nothing': async (given) => {
    const lease = await given.create('turn')
    await rejects(given.log.claim('turn', 'other', LONG_MS), 'LEASE_HELD', 'a claim')
    await given.append(lease, 'events', deltas('turn', 1, 1))
    equal((await given.log.getTurn('turn'))?.owner, 'owner', 'the owner')
  },
  'L1 a claim raises the epoch, and each log continues where it was': async (given) => {
    const orphan = await given.createOrphan('turn')
    await given.append(orphan, 'events', deltas('turn', 1, 3))
    await given.append(orphan, 'processed', outputsOf('turn', 'a').slice(0, 2))
    const { until, creation, ...lease } = await given.log.claim('turn', 'heir', LONG_MS)
    const next = { events: 4, processed: 3 }
    equal(lease, { turnId: 'turn', runId: 'turn', epoch: 2, next }, 'the lease')
    ok(until > orphan.until, 'the new lease runs out before the old one did')
    equal(creation, orphan.creation, 'the creation')
    const turn = await given.log.getTurn('turn')
    equal([turn?.owner, turn?.epoch], ['heir', 2], 'owner and epoch of the record')
  },
  'L2 seq continues across epochs, and an offset names its epoch': async (given) => {
    const first = await given.createOrphan('turn')
    await given.append(first, 'events', deltas('turn', 1, 2))
    await given.log.claim('turn', 'idle', SHORT_MS)
    await given.under.elapse(SHORT_MS)
    const third = await given.log.claim('turn', 'heir', LONG_MS)
    equal(third.next, { events: 3, processed: 1 }, 'what comes next')
    await given.append(third, 'events', eventsUpTo('turn', 4, 3), { seal: true })
    const records = await given.read('turn', 'events')
    equal(offsets(records), ['1-1', '1-2', '3-3', '3-4'], 'the offsets')
    for (const [index, { offset }] of records.entries()) {
      const rest = await given.read('turn', 'events', offset)
      equal(rest, records.slice(index + 1), `what follows ${offset}`)
    }
  },
  'L1 claiming an unknown turn is TURN_UNKNOWN, and a sealed one LOG_SEALED': async (given) => {
    await rejects(given.log.claim('turn', 'heir', LONG_MS), 'TURN_UNKNOWN', 'a claim')
    const lease = await given.createOrphan('turn')
    await given.seal(lease)
    await rejects(given.log.claim('turn', 'heir', LONG_MS), 'LOG_SEALED', 'a claim')
  },
  'L5 a turn with only events sealed can be claimed to finish processed': async (given) => {
    const orphan = await given.createOrphan('turn')
    await given.append(orphan, 'events', eventsUpTo('turn', 2), { seal: true })
    const lease = await given.log.claim('turn', 'heir', LONG_MS)
    const more = { seq: 3, data: deltas('turn', 3, 3)[0]?.data ?? '' }
    await rejects(given.append(lease, 'events', [more]), 'LOG_SEALED', 'an event after the end')
    await given.append(lease, 'processed', outputsOf('turn', 'a'), { seal: true })
    equal((await given.log.getTurn('turn'))?.sealed, true, 'sealed')
  },
  'L3 an old epoch can neither write nor renew once the turn is claimed': async (given) => {
    const old = await given.createOrphan('turn')
    const text = { events: deltas('turn', 1, 2), processed: outputsOf('turn', 'a') }
    for (const name of LOG_NAMES) await given.append(old, name, text[name].slice(0, 1))
    const lease = await given.log.claim('turn', 'heir', LONG_MS)
    for (const name of LOG_NAMES) {
      const what = `an append to ${name} with the old lease`
      await rejects(given.append(old, name, text[name].slice(1, 2)), 'LEASE_LOST', what)
      await rejects(given.append(old, name, text[name].slice(0, 1)), 'LEASE_LOST', what)
      const seal = given.append(old, name, eventsUpTo('turn', 2, 2), { seal: true })
      await rejects(seal, 'LEASE_LOST', what)
    }
    await rejects(given.log.renew(old, LONG_MS), 'LEASE_LOST', 'a renewal of the old lease')
    const offset = await given.append(lease, 'events', text.events.slice(1))
    equal(offset, '2-2', 'the offset that the new lease wrote')
  },
  'L1 one of 20 concurrent claims succeeds, also across processes': async (given) => {
    await given.createOrphan('turn')
    const logs = [given.log, (await given.elsewhere()).log] as const
    const claims = Array.from({ length: 20 }, (_, index) =>
      logs[index % 2 === 0 ? 0 : 1].claim('turn', `heir-${index}`, LONG_MS),
    )
    const { at } = await oneSucceeds(claims, 'LEASE_HELD')
    const turn = await given.log.getTurn('turn')
    equal([turn?.epoch, turn?.owner], [2, `heir-${at}`], 'epoch and owner')
  },
  'L5 no record of the old owner is stored after a claim resolves': async (given) => {
    const lost = await given.createOrphan('turn')
    const writing = (async () => {
      for (let seq = 1; seq <= 5000; seq++) {
        // A store that appends in memory would otherwise be done before its readers run.
        if (isSliceOver()) await nextSlice()
        await given.append(lost, 'events', deltas('turn', seq, seq))
      }
    })()
    const ended = soon(rejects(writing, 'LEASE_LOST', 'writing on with the old lease'))
    await given.take('turn', 'events', 5)
    const lease = await given.log.claim('turn', 'heir', LONG_MS)
    const next = lease.next.events
    await given.append(lease, 'events', eventsUpTo('turn', next + 1, next), { seal: true })
    await ended
    const written = offsets(await given.read('turn', 'events'))
    const old = Array.from({ length: next - 1 }, (_, index) => `1-${index + 1}`)
    const expected = [...old, `2-${next}`, `2-${next + 1}`]
    equal(written, expected, 'the offsets')
  },
  'L1 an expired lease can write and renew until the turn is claimed': async (given) => {
    const lease = await given.createOrphan('turn')
    await given.append(lease, 'events', deltas('turn', 1, 2))
    await given.log.renew(lease, SHORT_MS)
    const output = { seq: 1, data: message('turn', 'a', 'text') }
    await given.append(lease, 'processed', [output])
    await given.under.elapse(SHORT_MS)
    equal(await given.log.expired(10), ['turn'], 'the turns whose lease ran out')
    await given.log.renew(lease, LONG_MS)
    equal(await given.log.expired(10), [], 'the turns whose lease ran out')
    await rejects(given.log.claim('turn', 'heir', LONG_MS), 'LEASE_HELD', 'a claim')
  },
  'L1 a lease cannot be renewed after another process claimed the turn': async (given) => {
    const lease = await given.createOrphan('turn')
    await given.log.claim('turn', 'heir', LONG_MS)
    await rejects(given.log.renew(lease, LONG_MS), 'LEASE_LOST', 'a late renewal')
  },
  'D5 the end of a lease is a time of day, however the lease was granted': async (given) => {
    const checkUntil = async ({ turnId, until }: Lease, what: string, leaseMs = LONG_MS) => {
      const { createdAt = 0 } = (await given.log.getTurn(turnId)) ?? {}
      const late = until - createdAt - leaseMs
      ok(Math.abs(late) < LONG_MS / 2, `${what} ends ${late} ms late`)
    }
    const lease = await given.createOrphan('turn')
    await checkUntil(lease, 'the first lease', SHORT_MS)
    await given.log.renew(lease, SHORT_MS)
    await checkUntil(lease, 'a renewed lease', SHORT_MS)
    await given.under.elapse(SHORT_MS)
    const heir = await given.log.claim('turn', 'heir', LONG_MS)
    await checkUntil(heir, 'a claimed lease')
  },
  'D5 a renewal extends the lease': async (given) => {
    const lease = await given.create('turn', {}, 10 * SHORT_MS)
    const before = lease.until
    await given.log.renew(lease, LONG_MS)
    ok(lease.until > before, `until was ${before} and became ${lease.until}`)
    await given.under.elapse(10 * SHORT_MS)
    await rejects(given.log.claim('turn', 'other', LONG_MS), 'LEASE_HELD', 'a claim')
    equal(await given.log.expired(10), [], 'the turns whose lease ran out')
  },
  'L1 the lease of an ended turn can be renewed': async (given) => {
    const lease = await given.createSealed('turn')
    const before = lease.until
    await given.log.renew(lease, 2 * LONG_MS)
    ok(lease.until > before, `until was ${before} and became ${lease.until}`)
  },
  'L1 the lease of a deleted turn is lost': async (given) => {
    const lease = await given.create('turn')
    await given.log.deleteTurn('turn')
    await rejects(given.log.renew(lease, LONG_MS), 'LEASE_LOST', 'a renewal')
    for (const name of LOG_NAMES) {
      const append = given.append(lease, name, deltas('turn', 1, 1))
      await rejects(append, 'LEASE_LOST', `an append to ${name}`)
    }
  },
  'L1 expired lists up to the given number of open turns with an expired lease': async (given) => {
    const { log, under } = given
    await given.create('held')
    const orphans = ['orphan-1', 'orphan-2', 'orphan-3']
    for (const turnId of orphans) await given.create(turnId, {}, SHORT_MS)
    const done = await given.create('done', {}, SHORT_MS)
    await given.seal(done)
    await under.elapse(SHORT_MS)
    equal((await log.expired(10)).toSorted(), orphans, 'the orphans')
    equal((await log.expired(2)).length, 2, 'the number of two orphans')
    await log.claim('orphan-1', 'heir', LONG_MS)
    equal((await log.expired(10)).toSorted(), orphans.slice(1), 'the orphans after a claim')
    await log.deleteTurn('orphan-2')
    equal(await log.expired(10), ['orphan-3'], 'the orphans after a deletion')
  },
}
