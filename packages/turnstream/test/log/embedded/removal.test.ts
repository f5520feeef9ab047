/** A removal is in the file before this process hears of it: readers in between must not take it for damage. */
import { expect, onTestFinished, test, vi } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { deltas } from '../../../../conformance/src/turn-log/texts.ts'
import { Environment } from '../../../src/log/embedded/environment.ts'
import { START } from '../../../src/log/offsets.ts'
import { createTurn, endTurn, folderOfTest, openLog } from './support.ts'

const EVENTS = 600
const RETENTION_MS = 1000

/** Commits are written, and acknowledged when the returned function is called. */
function holdCommits() {
  const original = Reflect.get(Environment.prototype, 'commit')
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  let written = () => {}
  const isWritten = new Promise<void>((resolve) => {
    written = resolve
  })
  const spy = vi.spyOn(Environment.prototype, 'commit').mockImplementation(async function (
    this: Environment,
    writes,
  ) {
    await original.call(this, writes)
    written()
    await released
  })
  const acknowledge = () => {
    spy.mockRestore()
    release()
  }
  onTestFinished(acknowledge)
  return { isWritten, release: acknowledge }
}

async function readerAtStart() {
  const clock = fakeClock()
  const log = await openLog(folderOfTest(), { clock, retentionMs: RETENTION_MS, sweepMs: 100 })
  const lease = await createTurn(log, 'turn')
  for (let first = 1; first < EVENTS; first += 200) {
    await appendTo(log, lease, 'events', deltas('turn', first, first + 199))
  }
  const reader = log.tail('turn', 'events', START, new AbortController().signal)
  const records = reader[Symbol.asyncIterator]()
  await records.next()
  const readOn = async () => {
    for (let read = 1; read < EVENTS; read++) await records.next()
  }
  return { clock, log, lease, readOn }
}

test('a reader of a turn being deleted gets an error', async () => {
  const { log, readOn } = await readerAtStart()
  const commits = holdCommits()
  const deleted = log.deleteTurn('turn')
  await commits.isWritten
  await expect(readOn()).rejects.toMatchObject({ code: 'TURN_DELETED' })
  commits.release()
  expect(await deleted).toBe(true)
})

test('a reader of a turn being expired gets an error', async () => {
  const { clock, log, lease, readOn } = await readerAtStart()
  await endTurn(log, lease, { events: EVENTS + 1, processed: 1 })
  const commits = holdCommits()
  await clock.advance(2 * RETENTION_MS)
  await commits.isWritten
  await expect(readOn()).rejects.toMatchObject({ code: 'TURN_EXPIRED' })
  commits.release()
})
