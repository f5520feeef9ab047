import { describe, expect, test } from 'vitest'
import { type FakeClock, fakeClock } from '../../../conformance/src/index.ts'
import { type ErrorCode, TurnstreamError } from '../../../core/src/index.ts'
import type { Lease, LogName, TurnLog } from '../../../core/src/log/turn-log.ts'
import { THREAD_ID, TURN_ID } from '../../../core/test/processor/events.ts'
import { endOrphan } from '../../src/server.ts'
import { AppendWriter } from '../log/hooked-log.ts'
import { mortalLog } from './mortal-log.ts'
import { answer, call, delta, end, open, usage } from './payloads.ts'
import { LEASE_MS, newRig, PROMPT, type Rig } from './rig.ts'
import { checkWhole } from './whole-turn.ts'
import { WildLog } from './wild-log.ts'

const ROUNDS = [
  [...answer('1', 'Let me see'), ...call('2', 'add'), end({ usage: usage(1, 2) })],
  [...answer('1', 'It is added, and that is all there is to be said about it'), end()],
]
const TOOLS = [{ name: 'add', parameters: {}, execute: () => 'added' }]

/** Submits a turn, and lets time pass until nobody can be at work any more. */
async function liveOn(log: TurnLog, clock: FakeClock): Promise<Rig & { submitted: unknown }> {
  const rig = newRig({ log, clock, rounds: ROUNDS, tools: TOOLS })
  const submission = { turnId: TURN_ID, threadId: THREAD_ID, input: [PROMPT] }
  const submit = rig.runner.submit(submission).catch((error: unknown) => error)
  await clock.advance(3 * LEASE_MS)
  return { ...rig, submitted: await submit }
}

async function checkLeft(log: WildLog, clock: FakeClock): Promise<void> {
  await clock.advance(LEASE_MS)
  if ((await log.getTurn(TURN_ID)) === undefined) return
  const result = await endOrphan(log, TURN_ID, { owner: 'another', leaseMs: LEASE_MS, clock })
  expect(['ended', 'sealed']).toContain(result)
  await checkWhole(log)
}

/** The same log, of which one call fails, once; how many were made is counted. */
function stumblingLog(
  log: WildLog,
  at: number,
  code: ErrorCode,
): { log: TurnLog; count: () => number } {
  let calls = 0
  const call = (name: keyof WildLog, args: unknown[]): unknown => {
    calls += 1
    if (calls === at && name !== 'tail') {
      return Promise.reject(new TurnstreamError(code, `call ${at}: ${name}`))
    }
    return Reflect.apply(log[name] as () => unknown, log, args)
  }
  const open = (lease: Lease, name: LogName, options: object) => {
    const append = (...args: unknown[]) => call('append', [lease, name, ...args]) as Promise<string>
    return new AppendWriter(lease, name, append, options, log.clock)
  }
  const stumbling = new Proxy<TurnLog>(log, {
    get(target, name) {
      if (name === 'open') return open
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => call(name as keyof WildLog, args)
    },
  })
  return { log: stumbling, count: () => calls }
}

describe('a turn whose store', { timeout: 60_000 }, () => {
  test.each([false, true])(
    'dies at any call can be ended by another process (it reached: %s)',
    async (reaches) => {
      let wasWhole = false
      for (let at = 1; !wasWhole; at += 1) {
        const clock = fakeClock()
        const log = new WildLog(clock)
        const rig = await liveOn(mortalLog(log, at, reaches), clock)
        expect(rig.runner.running).toBe(0)
        await rig.runner.shutdown(0)
        wasWhole = log.seals.processed === 1
        await checkLeft(log, clock)
        expect(clock.pending()).toBe(0)
      }
    },
  )

  test.each(['STORE_UNAVAILABLE', 'STORE_READ_ONLY', 'LEASE_LOST', 'LOG_SEQUENCE_GAP'] as const)(
    'fails at any one call ends correctly (%s)',
    async (code) => {
      let calls = Infinity
      for (let at = 1; at <= calls; at += 1) {
        const clock = fakeClock()
        const log = new WildLog(clock)
        const stumbling = stumblingLog(log, at, code)
        const rig = await liveOn(stumbling.log, clock)
        expect(rig.runner.running).toBe(0)
        // A call that never came did not fail: the turn needs no more than so many.
        calls = stumbling.count() < at ? 0 : Infinity
        await checkLeft(log, clock)
      }
    },
  )

  test('fails one append, renewal or wait is not affected', async () => {
    for (let at = 2; ; at += 1) {
      const clock = fakeClock()
      const log = new WildLog(clock)
      const stumbling = stumblingLog(log, at, 'STORE_UNAVAILABLE')
      const rig = await liveOn(stumbling.log, clock)
      if (stumbling.count() < at) break
      const last = JSON.parse(log.kept.events.at(-1) ?? '') as { payload: Record<string, unknown> }
      const isHistory = rig.errors.includes('STORE_UNAVAILABLE')
      if (!isHistory) expect(last.payload).toMatchObject({ type: 'response_done' })
      await checkWhole(log)
    }
  })

  test('never answers again is abandoned after the lease', async () => {
    const clock = fakeClock()
    const log = new WildLog(clock)
    const rig = newRig({ log, clock, rounds: [({ say }) => say(open('a'), delta('a', 'x'))] })
    await rig.runner.submit({ turnId: TURN_ID, threadId: THREAD_ID, input: [PROMPT] })
    const { signal, say } = await rig.provider.called(1)
    await clock.advance(LEASE_MS / 3)
    log.faults.set('append', { kind: 'stuck' })
    say(delta('a', ' and more'))
    await clock.advance(LEASE_MS - 1)
    expect(signal.aborted).toBe(false)
    await clock.advance(LEASE_MS / 3 + 1)
    expect(signal.aborted).toBe(true)
    expect(rig.errors).toEqual(['STORE_UNAVAILABLE'])
    expect(rig.runner.running).toBe(0)
    log.faults.clear()
    await checkLeft(log, clock)
  })
})
