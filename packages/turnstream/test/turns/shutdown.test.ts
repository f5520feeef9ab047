import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { TurnstreamError } from '../../../core/src/index.ts'
import type { Lease, NewTurn } from '../../../core/src/log/turn-log.ts'
import { HookedLog } from '../log/hooked-log.ts'
import { call, delta, end, open } from './payloads.ts'
import { LEASE_MS, newRig, outputsOf, PROMPT, type Round, storyOf, tick } from './rig.ts'

const SPEAKING: Round = ({ say }) => say(open('a'), delta('a', 'Half'))

function watch(promise: Promise<void>): { isSettled: boolean } {
  const watched = { isSettled: false }
  void promise.then(() => {
    watched.isSettled = true
  })
  return watched
}

describe('D5 a shutdown', () => {
  test('refuses new turns', async () => {
    const { runner, submit } = newRig()
    await runner.shutdown(0)
    await expect(submit()).rejects.toMatchObject({ code: 'SERVER_SHUTDOWN' })
    const nameless = runner.submit({ input: [PROMPT] })
    await expect(nameless).rejects.toMatchObject({ code: 'SERVER_SHUTDOWN' })
  })

  test('refuses new turns even when the store is closed', async () => {
    const { runner, submit, log } = newRig()
    await runner.shutdown(0)
    await log.close()
    await expect(submit()).rejects.toMatchObject({ code: 'SERVER_SHUTDOWN' })
  })

  test('resolves at once when nothing runs', async () => {
    const { runner, clock } = newRig()
    await runner.start()
    await runner.shutdown(30_000)
    expect(clock.pending()).toBe(0)
  })

  test('waits for the turns that run', async () => {
    const { runner, clock, submit, provider, log } = newRig({ rounds: [SPEAKING] })
    await submit()
    const { say, stream } = await provider.called(1)
    const shutdown = runner.shutdown(30_000)
    const watched = watch(shutdown)
    await clock.advance(29_999)
    expect(watched.isSettled).toBe(false)
    say(end())
    stream.complete()
    await shutdown
    expect((await storyOf(log)).at(-1)).toBe('end stop ?')
    expect(runner.running).toBe(0)
    expect(clock.pending()).toBe(0)
  })

  test('ends the rest after the grace period and seals both logs', async () => {
    const { runner, clock, submit, provider, log, errors } = newRig({ rounds: [SPEAKING] })
    await submit()
    const { signal } = await provider.called(1)
    const shutdown = runner.shutdown(30_000)
    await clock.advance(30_000)
    await shutdown
    expect(signal.aborted).toBe(true)
    expect((await storyOf(log)).slice(-2)).toEqual([
      'error r:1 SERVER_SHUTDOWN',
      'end SERVER_SHUTDOWN',
    ])
    expect((await outputsOf(log)).slice(-2)).toMatchObject([
      { status: 'error', content: 'Half', errorCode: 'SERVER_SHUTDOWN' },
      { type: 'turn_error', error: { code: 'SERVER_SHUTDOWN' } },
    ])
    expect(await log.getTurn('r')).toMatchObject({
      sealed: true,
      error: { code: 'SERVER_SHUTDOWN' },
    })
    expect(errors).toEqual([])
  })

  test('does not wait for a tool that does not stop', async () => {
    const tools = [{ name: 'wait', parameters: {}, execute: () => new Promise(() => {}) }]
    const { runner, clock, submit, log } = newRig({
      rounds: [[...call('1', 'wait'), end()]],
      tools,
    })
    await submit()
    await tick(clock)
    const shutdown = runner.shutdown(10)
    await clock.advance(10)
    await shutdown
    expect((await storyOf(log)).slice(-2)).toEqual([
      'error r:1 SERVER_SHUTDOWN',
      'end SERVER_SHUTDOWN',
    ])
  })

  test('can be shortened by a second call', async () => {
    const { runner, clock, submit, log } = newRig({ rounds: [SPEAKING] })
    await submit()
    const patient = runner.shutdown(30_000)
    const urgent = runner.shutdown(0)
    await clock.advance(0)
    await Promise.all([patient, urgent])
    expect((await storyOf(log)).at(-1)).toBe('end SERVER_SHUTDOWN')
    expect(clock.pending()).toBe(0)
  })

  test('also ends a turn whose submit was in flight', async () => {
    const clock = fakeClock()
    let create = () => {}
    const log = new (class extends HookedLog {
      override async create(turn: NewTurn, leaseMs: number): Promise<Lease> {
        await new Promise<void>((resolve) => {
          create = resolve
        })
        return super.create(turn, leaseMs)
      }
    })({ clock })
    const { runner, submit } = newRig({ log, clock, rounds: [SPEAKING] })
    const submitted = submit()
    const shutdown = runner.shutdown(1000)
    const watched = watch(shutdown)
    await clock.advance(1000)
    expect(watched.isSettled).toBe(false)
    create()
    await submitted
    await shutdown
    expect((await storyOf(log)).at(-1)).toBe('end SERVER_SHUTDOWN')
  })

  test('resolves although nothing can be written', async () => {
    const clock = fakeClock()
    const log = new (class extends HookedLog {
      isAway = false
      override append(...args: Parameters<HookedLog['append']>): Promise<string> {
        return this.isAway ? new Promise(() => {}) : super.append(...args)
      }
      override renew(...args: Parameters<HookedLog['renew']>): Promise<void> {
        return this.isAway ? new Promise(() => {}) : super.renew(...args)
      }
    })({ clock })
    const { runner, submit, errors } = newRig({ log, clock, rounds: [SPEAKING] })
    await submit()
    await tick(clock)
    log.isAway = true
    const shutdown = runner.shutdown(0)
    await clock.advance(LEASE_MS)
    await shutdown
    expect(errors).toEqual(['LEASE_LOST'])
    expect(runner.running).toBe(0)
  })

  test('resolves two seconds after the grace although a submit never settles', async () => {
    const clock = fakeClock()
    const log = new HookedLog({ clock })
    log.create = () => new Promise(() => {})
    const { runner, submit } = newRig({ log, clock })
    void submit()
    const watched = watch(runner.shutdown(1000))
    await clock.advance(2999)
    expect(watched.isSettled).toBe(false)
    await clock.advance(1)
    expect(watched.isSettled).toBe(true)
  })

  test('does not wait for submits that are repeated', async () => {
    const clock = fakeClock()
    const log = new HookedLog({ clock })
    const { runner, submit } = newRig({ log, clock, rounds: [SPEAKING] })
    await submit()
    await tick(clock)
    const watched = watch(runner.shutdown(1000))
    log.getTurn = (turnId) =>
      new Promise((resolve) => {
        clock.after(100, () => resolve(HookedLog.prototype.getTurn.call(log, turnId)))
      })
    const repeat = (): void => void submit().then(repeat, repeat)
    repeat()
    await clock.advance(50)
    repeat()
    await clock.advance(1000)
    expect(watched.isSettled).toBe(true)
    expect((await storyOf(log)).at(-1)).toBe('end SERVER_SHUTDOWN')
    log.getTurn = () => new Promise(() => {})
  })

  test('leaves a turn that was cancelled as it was', async () => {
    const { runner, clock, submit, log } = newRig({ rounds: [SPEAKING] })
    await submit()
    await tick(clock)
    await runner.cancel('r', 'enough')
    const shutdown = runner.shutdown(0)
    await clock.advance(0)
    await shutdown
    expect((await storyOf(log)).at(-1)).toBe('aborted enough')
  })

  test('is not affected by an onError that throws', async () => {
    const log = new HookedLog()
    log.renew = () => Promise.reject(new TurnstreamError('LEASE_LOST', 'gone'))
    const onError = () => {
      throw new Error('of the listener')
    }
    const { runner, clock, submit } = newRig({ log, onError, rounds: [SPEAKING] })
    await submit()
    await clock.advance(LEASE_MS)
    await runner.shutdown(0)
    expect(runner.running).toBe(0)
  })
})
