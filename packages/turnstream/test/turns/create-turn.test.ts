/** A thread whose last turn has said its last word, while its snapshots do not have their end yet. */

import { expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { appendTo } from '../../../conformance/src/turn-log/append.ts'
import { responseDone, turnComplete } from '../../../conformance/src/turn-log/texts.ts'
import { MemoryLog } from '../../src/server.ts'
import { createTurnRecord } from '../../src/turns/turn-record.ts'

const LEASE_MS = 60_000
const NEXT = { turnId: 'next', threadId: 'thread', owner: 'me' }

async function ending() {
  const clock = fakeClock()
  const log = new MemoryLog({ clock })
  const lease = await log.create({ ...NEXT, turnId: 'last' }, LEASE_MS)
  const end = (name: 'events' | 'processed', data: string) =>
    appendTo(log, lease, name, [{ seq: 1, data }], { seal: true })
  return {
    clock,
    log,
    endEvents: () => end('events', responseDone('last', 1)),
    endSnapshots: () => end('processed', turnComplete('last')),
    next: () => createTurnRecord(log, NEXT, LEASE_MS, clock),
  }
}

test('is awaited', async () => {
  const { endEvents, endSnapshots, next } = await ending()
  await endEvents()
  const made = next()
  await endSnapshots()
  expect(await made).toMatchObject({ turnId: 'next' })
})

test('is busy while the turn runs, without waiting', async () => {
  const { next } = await ending()
  await expect(next()).rejects.toMatchObject({ code: 'THREAD_BUSY' })
})

test('is busy when the end does not come', async () => {
  const { clock, endEvents, next } = await ending()
  await endEvents()
  const [made] = await Promise.allSettled([next(), clock.advance(2000)])
  expect(made).toMatchObject({ status: 'rejected', reason: { code: 'THREAD_BUSY' } })
})

test('is free when that turn is deleted meanwhile', async () => {
  const { log, endEvents, next } = await ending()
  await endEvents()
  const made = next()
  await log.deleteTurn('last')
  expect(await made).toMatchObject({ turnId: 'next' })
})
