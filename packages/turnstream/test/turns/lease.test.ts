import { describe, expect, test } from 'vitest'
import { type FakeClock, fakeClock } from '../../../conformance/src/index.ts'
import type { TextRecord } from '../../../conformance/src/turn-log/append.ts'
import { type ErrorCode, TurnstreamError } from '../../../core/src/index.ts'
import type { Lease, LogName } from '../../../core/src/log/turn-log.ts'
import { endOrphan } from '../../src/server.ts'
import { HookedLog } from '../log/hooked-log.ts'
import { call, delta, end, open } from './payloads.ts'
import { eventsOf, LEASE_MS, newRig, type Round, readLog, storyOf, tick } from './rig.ts'

/** A store whose renewals can be counted, refused and left unanswered, and which can go away. */
class FragileLog extends HookedLog {
  override readonly clock: FakeClock
  readonly renewals: number[] = []
  renewing: ErrorCode | 'silent' | undefined
  isAway = false

  constructor(clock: FakeClock) {
    super({ clock })
    this.clock = clock
  }

  override async renew(lease: Lease, leaseMs: number): Promise<void> {
    this.renewals.push(this.clock.now())
    const code = this.isAway ? 'STORE_UNAVAILABLE' : this.renewing
    if (code === 'silent') return new Promise(() => {})
    if (code !== undefined) throw new TurnstreamError(code, 'renew')
    return super.renew(lease, leaseMs)
  }

  override async append(
    lease: Lease,
    name: LogName,
    records: readonly TextRecord[],
    options?: { readonly seal?: boolean },
  ): Promise<string> {
    if (this.isAway) throw new TurnstreamError('STORE_UNAVAILABLE', 'append')
    return super.append(lease, name, records, options)
  }
}

const SPEAKING: Round = ({ say }) => say(open('a'), delta('a', 'Half'))

async function speaking() {
  const clock = fakeClock()
  const log = new FragileLog(clock)
  const rig = newRig({ log, clock, rounds: [SPEAKING] })
  await rig.submit()
  const { say, stream, signal } = await rig.provider.called(1)
  await tick(clock)
  return { ...rig, log, clock, say, stream, signal }
}

describe('D5 the time of a lease', () => {
  /** A clock whose process can be stopped: time passes, and no timer rings. */
  function stoppable() {
    const clock = fakeClock()
    let stoppedMs = 0
    const monotonic = () => clock.now() + stoppedMs
    const stop = (ms: number) => {
      stoppedMs += ms
    }
    return { clock: { ...clock, monotonic }, stop }
  }

  test.each([8000, -8000, 3_600_000])(
    'does not follow a system clock that is set by %i ms',
    async (stepMs) => {
      const clock = fakeClock(10_000_000)
      const rig = newRig({ clock, rounds: [SPEAKING] })
      await rig.runner.start()
      await rig.submit()
      const { say, stream } = await rig.provider.called(1)
      clock.step(stepMs)
      await clock.advance(3 * LEASE_MS)
      say(end())
      stream.complete()
      await rig.settled()
      expect(rig.errors).toEqual([])
      expect((await storyOf(rig.log)).at(-1)).toBe('end stop ?')
      expect(await rig.log.getTurn('r')).toMatchObject({ epoch: 1, sealed: true })
      await rig.runner.shutdown(0)
    },
  )

  test('that passes while the process is stopped ends no turn of its own', async () => {
    const { clock, stop } = stoppable()
    const rig = newRig({ clock, rounds: [SPEAKING] })
    await rig.runner.start()
    await rig.submit()
    const { say, stream } = await rig.provider.called(1)
    stop(5 * LEASE_MS)
    expect(await rig.log.expired(10)).toEqual(['r'])
    await clock.advance(2 * LEASE_MS)
    expect(await rig.log.expired(10)).toEqual([])
    say(end())
    stream.complete()
    await rig.settled()
    expect(rig.errors).toEqual([])
    expect(await rig.log.getTurn('r')).toMatchObject({ epoch: 1, sealed: true })
    await rig.runner.shutdown(0)
  })

  test('that passes while the process is stopped lets another claim the turn', async () => {
    const { clock, stop } = stoppable()
    const rig = newRig({ clock, rounds: [SPEAKING] })
    await rig.submit()
    await rig.provider.called(1)
    stop(5 * LEASE_MS)
    expect(await endOrphan(rig.log, 'r', { owner: 'another', leaseMs: 1000, clock })).toBe('ended')
    await clock.advance(LEASE_MS)
    await rig.settled()
    expect(rig.errors).toEqual(['LEASE_LOST'])
  })
})

describe('D5 the lease of a turn that runs', () => {
  test('is renewed when a third of it has passed', async () => {
    const { log, clock, say, stream, settled } = await speaking()
    await clock.advance(10 * LEASE_MS)
    const third = LEASE_MS / 3
    expect(log.renewals.slice(0, 4)).toEqual([third, 2 * third, 3 * third, 4 * third])
    say(end())
    stream.complete()
    await settled()
    const { length } = log.renewals
    await clock.advance(LEASE_MS)
    expect(log.renewals).toHaveLength(length)
    expect(clock.pending()).toBe(0)
  })

  test('survives failed renewals if one succeeds in time', async () => {
    const { log, clock, errors, runner } = await speaking()
    log.renewing = 'STORE_FAILED'
    await clock.advance(LEASE_MS - 1)
    log.renewing = undefined
    expect(runner.running).toBe(1)
    expect(errors).toEqual([])
  })

  test.each(['STORE_FAILED', 'silent'] as const)(
    'is abandoned when the store does not renew it (%s)',
    async (renewing) => {
      const { log, clock, errors, settled, signal } = await speaking()
      await clock.advance(LEASE_MS / 3)
      log.renewing = renewing
      await clock.advance(LEASE_MS - 1)
      expect(signal.aborted).toBe(false)
      await clock.advance(1)
      await settled()
      expect(signal.aborted).toBe(true)
      expect(errors).toEqual(['LEASE_LOST'])
      expect(await storyOf(log)).toEqual(['open r:1 message', 'r:1 + Half'])
      expect(clock.pending()).toBe(0)
    },
  )

  test('that was claimed is noticed by the next renewal at the latest', async () => {
    const { log, clock, errors, settled, signal } = await speaking()
    log.renewing = 'LEASE_LOST'
    await clock.advance(LEASE_MS / 3)
    await settled()
    expect(signal.aborted).toBe(true)
    expect(errors).toEqual(['LEASE_LOST'])
    log.renewing = undefined
    expect(await storyOf(log)).toEqual(['open r:1 message', 'r:1 + Half'])
  })

  test('is not renewed while a renewal is in flight', async () => {
    const { log, clock } = await speaking()
    log.renewing = 'silent'
    await clock.advance(LEASE_MS - 1)
    expect(log.renewals).toHaveLength(1)
  })
})

describe('a turn that is lost', () => {
  test('to another process has its provider and tools stopped, and nothing more is written', async () => {
    let signal: AbortSignal | undefined
    const tools = [
      {
        name: 'wait',
        parameters: {},
        execute: (_args: unknown, context: { signal: AbortSignal }) => {
          signal = context.signal
          return new Promise((resolve) => context.signal.addEventListener('abort', resolve))
        },
      },
    ]
    const clock = fakeClock()
    const log = new FragileLog(clock)
    log.renewing = 'STORE_FAILED'
    const rig = newRig({ log, clock, rounds: [[...call('1', 'wait'), end()]], tools })
    await rig.submit()
    await clock.advance(LEASE_MS)
    expect(await endOrphan(log, 'r', { owner: 'another', leaseMs: 1000, clock })).toBe('ended')
    await rig.settled()
    expect(signal?.aborted).toBe(true)
    const story = await storyOf(log)
    expect(story.at(-1)).toBe('end PRODUCER_LOST')
    expect(await log.getTurn('r')).toMatchObject({ owner: 'another', sealed: true })
    await clock.advance(60_000)
    expect(await storyOf(log)).toEqual(story)
    expect(rig.errors).toEqual(['LEASE_LOST'])
  })

  test('because it was deleted is abandoned', async () => {
    const { log, clock, errors, settled, signal } = await speaking()
    await log.deleteTurn('r')
    await tick(clock)
    await settled()
    expect(signal.aborted).toBe(true)
    expect(errors).toEqual([])
  })

  test('because its thread was deleted during a write is abandoned', async () => {
    const { log, clock, errors, settled, say } = await speaking()
    say(delta('a', ' more'))
    await log.deleteThread('id-1')
    say(delta('a', ' and more'))
    await tick(clock)
    await settled()
    expect(errors).toEqual([])
  })

  test('to an unavailable store is abandoned after the lease, and queued records are never written', async () => {
    const { log, clock, errors, settled, signal, say } = await speaking()
    log.isAway = true
    say(delta('a', ' lost'))
    await clock.advance(LEASE_MS - 1)
    expect(signal.aborted).toBe(false)
    await clock.advance(LEASE_MS)
    await settled()
    expect(signal.aborted).toBe(true)
    expect(errors).toEqual(['LEASE_LOST'])
    log.isAway = false
    await clock.advance(60_000)
    expect(await eventsOf(log)).toHaveLength(5)
    expect(clock.pending()).toBe(0)
  })

  test('to a store that returns in time continues', async () => {
    const { log, clock, errors, settled, say, stream } = await speaking()
    log.isAway = true
    say(delta('a', ' kept'), end())
    stream.complete()
    await clock.advance(LEASE_MS - 500)
    log.isAway = false
    await clock.advance(1000)
    await settled()
    expect(errors).toEqual([])
    expect((await storyOf(log)).slice(-3)).toEqual([
      'r:1 +  kept',
      'error r:1 UPSTREAM_TRUNCATED',
      'end stop ?',
    ])
    expect(await log.getTurn('r')).toMatchObject({ sealed: true })
  })

  test('gives the same snapshots when claimed, including outputs for earlier turns', async () => {
    const clock = fakeClock()
    const log = new FragileLog(clock)
    const round: Round = ({ say }) => say(...call('1', 'ask', { call_id: 'call_0' }))
    const rig = newRig({ log, clock, rounds: [round] })
    const old = {
      type: 'function_call_output',
      call_id: 'call_0',
      output: 'old',
      success: true,
    } as const
    await rig.submit({ input: [old] }, { acceptsAnyOutput: true })
    await rig.provider.called(1)
    await tick(clock)
    const shown = await readLog(log, 'r', 'processed')
    log.renewing = 'STORE_FAILED'
    await clock.advance(LEASE_MS)
    expect(await endOrphan(log, 'r', { owner: 'another', leaseMs: 1000, clock })).toBe('ended')
    const all = await readLog(log, 'r', 'processed')
    expect(shown.at(-1)).toContain('"status":"create"')
    expect(all.slice(0, -1)).toEqual(shown)
  })

  test('before its end was emitted is completed by the claimer', async () => {
    const clock = fakeClock()
    const log = new (class extends FragileLog {
      override append(...args: Parameters<HookedLog['append']>): Promise<string> {
        const [, name, , options] = args
        if (name === 'processed' && options?.seal === true) {
          return Promise.reject(new TurnstreamError('STORE_READ_ONLY', 'no'))
        }
        return super.append(...args)
      }
    })(clock)
    const rig = newRig({ log, clock, rounds: [[open('a'), delta('a', 'x'), end()]] })
    await rig.submit()
    await rig.settled()
    expect(rig.errors).toEqual(['STORE_READ_ONLY'])
    expect((await storyOf(log)).at(-1)).toBe('end stop ?')
    expect(await log.getTurn('r')).toMatchObject({ sealed: false, status: 'complete' })
    await clock.advance(LEASE_MS)
    log.append = HookedLog.prototype.append.bind(log)
    expect(await endOrphan(log, 'r', { owner: 'another', leaseMs: 1000, clock })).toBe('ended')
    expect((await readLog(log, 'r', 'processed')).at(-1)).toContain('turn_complete')
    expect(await log.getTurn('r')).toMatchObject({ sealed: true })
  })
})
