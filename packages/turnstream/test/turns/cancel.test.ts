import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { TurnstreamError } from '../../../core/src/index.ts'
import type { Lease } from '../../../core/src/log/turn-log.ts'
import { MemoryLog } from '../../src/server.ts'
import { answer, call, delta, done, end, open, usage, used } from './payloads.ts'
import { LEASE_MS, newRig, outputsOf, payloadsOf, type Round, storyOf, tick } from './rig.ts'

const SPEAKING: Round = ({ say }) =>
  say(used(usage(4, 0)), ...answer('a', 'Whole'), open('b'), delta('b', 'Half'))

describe('D3 a cancel', () => {
  test('stops the provider, keeps the content, and ends the turn once', async () => {
    const rig = newRig({ rounds: [SPEAKING] })
    await rig.submit()
    const { signal } = await rig.provider.called(1)
    await tick(rig.clock)
    expect(await rig.runner.cancel('r', 'enough')).toBe(true)
    await rig.settled()
    expect(signal.aborted).toBe(true)
    expect(await storyOf(rig.log)).toEqual([
      'usage 4',
      'open r:1 message',
      'r:1 + Whole',
      'done r:1 Whole',
      'open r:2 message',
      'r:2 + Half',
      'done r:2 Half',
      'aborted enough',
    ])
    expect(await payloadsOf(rig.log)).toContainEqual(
      expect.objectContaining({
        type: 'turn_aborted_by_user',
        turn_id: 'r',
        reason: 'enough',
        usage: expect.objectContaining({ total_tokens: 4 }),
      }),
    )
    expect((await outputsOf(rig.log)).at(-1)).toMatchObject({
      type: 'turn_complete',
      status: 'aborted',
      usage: { totalTokens: 4 },
    })
    expect(await rig.log.getTurn('r')).toMatchObject({
      status: 'aborted',
      sealed: true,
      usage: { total_tokens: 4 },
    })
    expect(rig.errors).toEqual([])
    expect(rig.clock.pending()).toBe(0)
  })

  test('reports the usage of all rounds', async () => {
    const tools = [{ name: 'add', parameters: {}, execute: () => 'added' }]
    const rounds: Round[] = [
      [...call('1', 'add'), end({ usage: usage(1, 1) })],
      ({ say }) => say(open('a')),
    ]
    const rig = newRig({ rounds, tools })
    await rig.submit()
    const { say } = await rig.provider.called(2)
    say(used(usage(5, 5)))
    await tick(rig.clock)
    await rig.runner.cancel('r', 'enough')
    await rig.settled()
    expect((await storyOf(rig.log)).slice(-3)).toEqual([
      'usage 12',
      'cancelled r:3 enough',
      'aborted enough',
    ])
  })

  test('stops running tools without waiting for one that ignores it', async () => {
    let signal: AbortSignal | undefined
    const tools = [
      {
        name: 'wait',
        parameters: {},
        execute: (_args: unknown, context: { signal: AbortSignal }) => {
          signal = context.signal
          return new Promise(() => {})
        },
      },
    ]
    const rig = newRig({ rounds: [[...call('1', 'wait'), end()]], tools })
    await rig.submit()
    await tick(rig.clock)
    await rig.runner.cancel('r', 'enough')
    await rig.settled()
    expect(signal?.aborted).toBe(true)
    expect((await storyOf(rig.log)).slice(-2)).toEqual([
      'error r:1 ITEM_CANCELLED',
      'aborted enough',
    ])
    expect((await outputsOf(rig.log)).at(-2)).toMatchObject({
      status: 'error',
      errorCode: 'ITEM_CANCELLED',
    })
    expect(rig.errors).toEqual([])
    expect(rig.clock.pending()).toBe(0)
  })

  test('does not wait for a provider that ignores it', async () => {
    const rig = newRig()
    const { provider } = rig
    const stream = provider.stream.bind(provider)
    provider.stream = (request, run) => stream(request, run, new AbortController().signal)
    await rig.submit()
    await tick(rig.clock)
    await rig.runner.cancel('r', 'enough')
    await rig.settled()
    expect(await storyOf(rig.log)).toEqual(['aborted enough'])
  })

  test('before the provider is called prevents the call', async () => {
    const rig = newRig()
    const submitted = rig.submit()
    while ((await rig.log.getTurn('r')) === undefined);
    await rig.runner.cancel('r', 'at once')
    await submitted
    await rig.settled()
    expect(await storyOf(rig.log)).toEqual(['aborted at once'])
    expect(rig.provider.calls).toEqual([])
  })

  test('from another process reaches the one that runs the turn', async () => {
    const rig = newRig({ rounds: [SPEAKING] })
    await rig.submit()
    await tick(rig.clock)
    const other = newRig({ log: rig.log, clock: rig.clock })
    expect(await other.runner.cancel('r', 'from afar')).toBe(true)
    await rig.settled()
    expect((await storyOf(rig.log)).at(-1)).toBe('aborted from afar')
  })

  test('again changes nothing', async () => {
    const rig = newRig({ rounds: [SPEAKING] })
    await rig.submit()
    await tick(rig.clock)
    const cancels = [rig.runner.cancel('r', 'first'), rig.runner.cancel('r', 'second')]
    expect(await Promise.all(cancels)).toEqual([true, true])
    await rig.settled()
    expect(await rig.runner.cancel('r', 'third')).toBe(false)
    expect((await storyOf(rig.log)).filter((each) => each.startsWith('aborted'))).toEqual([
      'aborted first',
    ])
  })

  test('of no turn is TURN_UNKNOWN', async () => {
    const { runner } = newRig()
    await expect(runner.cancel('nobody', 'x')).rejects.toMatchObject({ code: 'TURN_UNKNOWN' })
  })

  // The provider says its last words so many promise jobs before or after the cancel.
  test.each([-3, -2, -1, 0, 1, 2, 3, 5, 8, 13])(
    'that races with the end leaves one end (%i)',
    async (lead) => {
      const rig = newRig({ rounds: [({ say }) => say(open('a'), delta('a', 'x'))] })
      await rig.submit()
      const { say } = await rig.provider.called(1)
      await tick(rig.clock)
      const finish = () => say(done('a', 'x'), end({ usage: usage(1, 1) }))
      if (lead <= 0) finish()
      for (let jobs = 0; jobs < Math.abs(lead); jobs++) await Promise.resolve()
      const cancelled = rig.runner.cancel('r', 'enough')
      for (let jobs = 0; jobs < lead; jobs++) await Promise.resolve()
      if (lead > 0 && !rig.provider.calls[0]?.signal.aborted) finish()
      await cancelled
      await rig.settled()
      const story = await storyOf(rig.log)
      const ends = story.filter((each) => /^(?:end|aborted)/.test(each))
      expect(ends).toHaveLength(1)
      expect(story.at(-1)).toBe(ends[0])
      const last = (await outputsOf(rig.log)).at(-1)
      const status = ends[0] === 'aborted enough' ? 'aborted' : 'complete'
      expect(last).toMatchObject({ type: 'turn_complete', status })
    },
  )

  test('is noticed despite a store failure', async () => {
    class Stumbling extends MemoryLog {
      failures = 3
      override cancelled(lease: Lease, signal: AbortSignal): Promise<string> {
        if (this.failures-- <= 0) return super.cancelled(lease, signal)
        return Promise.reject(new TurnstreamError('STORE_UNAVAILABLE', 'away'))
      }
    }
    const clock = fakeClock()
    const rig = newRig({ log: new Stumbling({ clock }), clock, rounds: [SPEAKING] })
    await rig.submit()
    await rig.runner.cancel('r', 'enough')
    await clock.advance(1000)
    await rig.settled()
    expect(clock.now()).toBeLessThan(LEASE_MS)
    expect((await storyOf(rig.log)).at(-1)).toBe('aborted enough')
  })
})
