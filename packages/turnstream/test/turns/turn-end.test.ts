/** V5: what the end of a turn says, whoever writes it to the log `processed`. */

import { expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { endOrphan } from '../../src/server.ts'
import { HookedLog } from '../log/hooked-log.ts'
import { broken, call, delta, done, end, open } from './payloads.ts'
import { LEASE_MS, newRig, outputsOf, tick } from './rig.ts'

const CUT = [open('a'), delta('a', 'Half'), done('a', 'Half'), end('length')]

const shown = [
  { itemId: 'r:1', status: 'complete', content: 'Half', finishReason: 'length' },
  {
    type: 'turn_complete',
    status: 'complete',
    finishReason: 'length',
    startedAt: 1_000_000,
    endedAt: 1_000_000,
  },
]

test('a text cut by the token limit has its finish reason, and the turn its times', async () => {
  const rig = newRig({ rounds: [CUT] })
  await rig.submit()
  await rig.settled()
  expect((await outputsOf(rig.log)).slice(-2)).toMatchObject(shown)
  const { records } = await rig.log.snapshot('r')
  expect(records.filter(({ key }) => key === 'r:1')).toHaveLength(1)
})

test("a process that ends another's turn reports the same", async () => {
  const clock = fakeClock(1_000_000)
  const log = new HookedLog({ clock })
  const rig = newRig({ log, clock, rounds: [CUT] })
  const append = log.append.bind(log)
  log.append = (lease, name, ...rest) =>
    lease.epoch === 1 && name === 'processed' ? new Promise(() => {}) : append(lease, name, ...rest)
  log.renew = () => new Promise(() => {})
  await rig.submit()
  await tick(clock)
  await clock.advance(LEASE_MS)
  expect(await endOrphan(log, 'r', { owner: 'another', leaseMs: LEASE_MS, clock })).toBe('ended')
  expect((await outputsOf(log)).slice(-2)).toMatchObject(shown)
})

const WAITING = [{ callId: 'call-a', itemId: 'r:1', toolName: 'ask' }]

test('V5 calls that the client may answer are listed, also when the turn fails', async () => {
  const rig = newRig({ rounds: [[...call('a', 'ask'), broken('HTTP_500')]] })
  await rig.submit()
  await rig.settled()
  expect((await outputsOf(rig.log)).slice(-2)).toMatchObject([
    { itemId: 'r:1', status: 'create' },
    { type: 'turn_error', finishReason: 'error', pendingCalls: WAITING },
  ])
})

test('V5 no calls are listed when the user stopped the turn', async () => {
  const rig = newRig({ rounds: [({ say }) => say(...call('a', 'ask'))] })
  await rig.submit()
  await tick(rig.clock)
  await rig.runner.cancel('r', 'enough')
  await rig.settled()
  const last = (await outputsOf(rig.log)).at(-1)
  expect(last).toMatchObject({ type: 'turn_complete', status: 'aborted' })
  expect(last).not.toHaveProperty('pendingCalls')
})
