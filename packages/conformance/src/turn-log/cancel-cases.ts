import { equal, rejects } from './assert.ts'
import { type Cases, LONG_MS, soon } from './given.ts'
import { eventsUpTo } from './texts.ts'

export const cancelCases: Cases = {
  'L1 the owner is notified of a cancel while it listens': async (given) => {
    const lease = await given.create('turn')
    const reason = soon(given.log.cancelled(lease, given.signal))
    equal(await given.log.requestCancel('turn', 'user'), true, 'the answer to the request')
    equal(await reason, 'user', 'the reason')
  },
  'L1 the owner is notified of a cancel from before it listened': async (given) => {
    const lease = await given.create('turn')
    await given.log.requestCancel('turn', 'user')
    equal(await given.log.cancelled(lease, given.signal), 'user', 'the reason')
    equal(await given.log.cancelled(lease, given.signal), 'user', 'the reason, asked for again')
  },
  'L1 a repeated cancel keeps the first reason': async (given) => {
    const lease = await given.create('turn')
    equal((await given.log.getTurn('turn'))?.cancelReason, undefined, 'the reason at first')
    equal(await given.log.requestCancel('turn', ''), true, 'the first answer')
    equal(await given.log.requestCancel('turn', 'second'), true, 'the second answer')
    equal(await given.log.cancelled(lease, given.signal), '', 'the reason that the owner hears')
    equal((await given.log.getTurn('turn'))?.cancelReason, '', 'the reason in the record')
  },
  'L1 a cancel returns false once events is sealed': async (given) => {
    const lease = await given.create('turn')
    await given.append(lease, 'events', eventsUpTo('turn', 2), { seal: true })
    equal(await given.log.requestCancel('turn', 'late'), false, 'the answer')
    equal((await given.log.getTurn('turn'))?.cancelReason, undefined, 'the reason')
    await rejects(given.log.requestCancel('other', 'x'), 'TURN_UNKNOWN', 'a cancel of no turn')
  },
  'L1 the next owner is notified of a cancel too': async (given) => {
    await given.createOrphan('turn')
    await given.log.requestCancel('turn', 'user')
    const lease = await given.log.claim('turn', 'heir', LONG_MS)
    equal(await given.log.cancelled(lease, given.signal), 'user', 'the reason')
  },
  'L1 waiting for a cancel rejects with ABORTED when its signal aborts': async (given) => {
    const lease = await given.create('turn')
    const listening = new AbortController()
    const heard = soon(given.log.cancelled(lease, listening.signal))
    listening.abort()
    await rejects(heard, 'ABORTED', 'listening')
    const aborted = AbortSignal.abort()
    await rejects(given.log.cancelled(lease, aborted), 'ABORTED', 'listening in vain')
  },
  'L1 waiting for a cancel is LEASE_LOST after a claim or a deletion': async (given) => {
    const old = await given.createOrphan('turn')
    const heard = soon(given.log.cancelled(old, given.signal))
    const lease = await given.log.claim('turn', 'heir', LONG_MS)
    await rejects(heard, 'LEASE_LOST', 'listening with the old lease')
    await rejects(given.log.cancelled(old, given.signal), 'LEASE_LOST', 'listening anew')
    const gone = soon(given.log.cancelled(lease, given.signal))
    await given.log.deleteTurn('turn')
    await rejects(gone, 'LEASE_LOST', 'listening to a turn that is gone')
  },
  'L1 the owner is notified within a second of a cancel in another process': async (given) => {
    const other = await given.elsewhere()
    for (const turnId of ['turn-1', 'turn-2', 'turn-3']) {
      const lease = await given.create(turnId)
      const reason = soon(given.log.cancelled(lease, given.signal))
      await other.log.requestCancel(turnId, `for ${turnId}`)
      const askedAt = Date.now()
      equal(await reason, `for ${turnId}`, 'the reason')
      const took = Date.now() - askedAt
      equal(took <= 1000, true, `that ${took} ms are a second at most`)
    }
  },
}
