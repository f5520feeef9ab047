import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { sleep, TurnstreamError } from '../../../core/src/index.ts'
import type { TurnObserver } from '../../src/server.ts'
import { HookedLog } from '../log/hooked-log.ts'
import { answer, BEGIN, call, delta, end, open } from './payloads.ts'
import { eventsOf, newRig, outputsOf, readLog, tick } from './rig.ts'
import { TOOLS, tool } from './some-tools.ts'

/** Keeps what it is told, in order. */
function recorder() {
  const told: unknown[][] = []
  const observer: TurnObserver = {
    counts: { events: 0, snapshots: 0 },
    started: (...args) => told.push(['started', ...args]),
    answered: (...args) => told.push(['answered', ...args]),
    retried: (...args) => told.push(['retried', ...args]),
    unknownEvent: (...args) => told.push(['unknown event', ...args]),
    ended: (...args) => told.push(['ended', ...args]),
    toolEnded: (...args) => told.push(['tool ended', ...args]),
    appended: () => {},
    orphanEnded: () => told.push(['orphan ended']),
  }
  return { told, observer }
}

const FACTS = {
  ...{ turnId: 'r', threadId: 'id-1', tenant: 'default' },
  ...{ provider: 'puppet', model: 'small' },
}

describe('an observer', () => {
  test('is notified once of the start, the first content and the end of a turn', async () => {
    const { told, observer } = recorder()
    const rig = newRig({ observer })
    await rig.submit()
    const { say, stream } = await rig.provider.called(1)
    await rig.clock.advance(300)
    say(BEGIN, ...answer('a', 'Hello'))
    await rig.clock.advance(700)
    say(...answer('b', 'again'), end())
    stream.complete()
    await rig.settled()
    expect(told).toEqual([
      ['started', FACTS],
      ['answered', FACTS, 300],
      ['ended', FACTS, expect.objectContaining({ status: 'completed', durationMs: 1000 })],
    ])
  })

  test('is notified of each call of a server tool', async () => {
    const { told, observer } = recorder()
    const rounds = [
      [...call('1', 'add', { arguments: '{"a":1,"b":2}' }), ...call('2', 'fail'), end()],
    ]
    const rig = newRig({ observer, tools: TOOLS, rounds: [...rounds, [end()]] })
    await rig.submit()
    await rig.settled()
    const ended = told.filter(([event]) => event === 'tool ended')
    expect(ended).toHaveLength(2)
    expect(ended).toContainEqual([
      'tool ended',
      FACTS,
      { tool: 'add', status: 'succeeded', durationMs: 0 },
    ])
    expect(ended).toContainEqual([
      'tool ended',
      FACTS,
      { tool: 'fail', status: 'failed', durationMs: 0 },
    ])
  })

  test('is notified of a call that is stopped with its turn', async () => {
    const { told, observer } = recorder()
    const slow = tool('slow', () => new Promise(() => {}))
    const rig = newRig({ observer, tools: [slow], rounds: [[...call('1', 'slow'), end()]] })
    await rig.submit()
    await rig.clock.advance(50)
    await rig.runner.cancel('r', 'enough')
    await rig.settled()
    expect(told.filter(([event]) => event === 'tool ended')).toEqual([
      ['tool ended', FACTS, { tool: 'slow', status: 'stopped', durationMs: 50 }],
    ])
  })

  test('counts durable records only', async () => {
    const { observer } = recorder()
    const rig = newRig({ observer, rounds: [[BEGIN, ...answer('a', 'Hello'), end()]] })
    await rig.submit()
    await rig.settled()
    expect(observer.counts.events).toBe((await eventsOf(rig.log)).length)
    expect((await rig.log.snapshot('r')).offset).toBe(`1-${observer.counts.snapshots}`)
    expect((await outputsOf(rig.log)).length).toBeGreaterThan(0)
  })

  test('a repeated submit starts no turn', async () => {
    const { told, observer } = recorder()
    const rig = newRig({ observer, rounds: [[BEGIN, ...answer('a', 'Hello'), end()]] })
    await rig.submit()
    await rig.settled()
    await rig.submit()
    expect(told.filter(([what]) => what === 'started')).toHaveLength(1)
  })

  test.each([
    ['here: since then', true, 250],
    ['elsewhere: since it was noticed here', false, 0],
  ])('gets the duration of a cancel requested %s', async (_name, isHere, cancelMs) => {
    /** What others ask for takes a while to come here. */
    class FarLog extends HookedLog {
      override async cancelled(...args: Parameters<HookedLog['cancelled']>): Promise<string> {
        const reason = await super.cancelled(...args)
        await sleep(250, clock)
        return reason
      }
    }
    const { told, observer } = recorder()
    const clock = fakeClock(1_000_000)
    const rig = newRig({ observer, clock, log: new FarLog({ clock }) })
    await rig.submit()
    await rig.provider.called(1)
    await clock.advance(500)
    const asked = isHere ? rig.runner.cancel('r', 'stop') : rig.log.requestCancel('r', 'stop')
    expect(await asked).toBe(true)
    await clock.advance(250)
    await rig.settled()
    expect(told.at(-1)).toEqual(['ended', FACTS, { status: 'aborted', durationMs: 750, cancelMs }])
  })

  test('a cancel of another turn or tenant does not count for this one', async () => {
    const { told, observer } = recorder()
    const rig = newRig({ observer })
    await rig.submit()
    await rig.provider.called(1)
    await rig.runner.cancel('other', 'enough').catch(() => {})
    await rig.runner.cancel('r', 'enough', 'acme').catch(() => {})
    await rig.clock.advance(400)
    await rig.runner.cancel('r', 'enough')
    await rig.settled()
    expect(told.at(-1)?.[2]).toMatchObject({ status: 'aborted', cancelMs: 0 })
  })

  test('an abandoned turn is lost, whatever its end would have been', async () => {
    class LosingLog extends HookedLog {
      isLosing = false
      override append(...args: Parameters<HookedLog['append']>): Promise<string> {
        if (!this.isLosing) return super.append(...args)
        return Promise.reject(new TurnstreamError('LEASE_LOST', 'to another'))
      }
    }
    const { told, observer } = recorder()
    const clock = fakeClock(1_000_000)
    const log = new LosingLog({ clock })
    const rig = newRig({ observer, log, clock })
    await rig.submit()
    const { say, stream } = await rig.provider.called(1)
    log.isLosing = true
    say(BEGIN, ...answer('a', 'Hello'), end())
    stream.complete()
    await rig.settled()
    expect(told.at(-1)).toEqual(['ended', FACTS, { status: 'lost', durationMs: 0 }])
    expect(observer.counts.events).toBe((await readLog(log, 'r', 'events')).length)
  })

  test('is notified of each retry of a provider call', async () => {
    const { told, observer } = recorder()
    const rig = newRig({ observer })
    await rig.submit()
    const { run } = await rig.provider.called(1)
    run.onRetry?.()
    run.onRetry?.()
    await tick(rig.clock)
    expect(told.filter(([what]) => what === 'retried')).toEqual([
      ['retried', FACTS],
      ['retried', FACTS],
    ])
  })
})

describe('the time of writes', () => {
  test('is measured for the first event and every sixteenth after it', async () => {
    const took: number[] = []
    const { observer } = recorder()
    const rig = newRig({ observer: { ...observer, appended: (ms) => took.push(ms) } })
    await rig.submit()
    const { say, stream } = await rig.provider.called(1)
    expect(took).toEqual([0])
    // The three events of the opening, `item_start`, and 28 deltas: two times sixteen.
    for (const piece of [open('a'), ...Array.from({ length: 28 }, () => delta('a', 'x'))]) {
      say(piece)
      await tick(rig.clock)
    }
    expect(took).toEqual([0, 0])
    say(delta('a', 'x'))
    await tick(rig.clock)
    expect(took).toEqual([0, 0, 0])
    say(end())
    stream.complete()
    await rig.settled()
  })
})
