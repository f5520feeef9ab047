/** Whoever admits turns is told of the end of each, exactly once, whatever becomes of it. */

import { describe, expect, test } from 'vitest'
import { type FakeClock, fakeClock } from '../../../conformance/src/index.ts'
import type { Submission } from '../../../core/src/formats/submission.ts'
import { TurnstreamError } from '../../../core/src/index.ts'
import type { TurnLog } from '../../../core/src/log/turn-log.ts'
import type { Submitted } from '../../src/server.ts'
import { HookedLog } from '../log/hooked-log.ts'
import { mortalLog } from './mortal-log.ts'
import { answer, broken, delta, end, open } from './payloads.ts'
import { LEASE_MS, newRig, PROMPT, type Rig, type Round, tick } from './rig.ts'

/** Counts what is admitted and what is given back. */
class Door {
  admitted = 0
  readonly left: number[] = []
  isClosed = false

  readonly admit = (): (() => void) => {
    if (this.isClosed) throw new TurnstreamError('TURNS_LIMITED', 'the door is closed')
    this.admitted += 1
    const number = this.admitted
    return () => this.left.push(number)
  }
}

function submitTo(rig: Rig, door: Door, fields: Partial<Submission> = {}): Promise<Submitted> {
  return rig.runner.submit({ runId: 'r', input: [PROMPT], ...fields }, { admit: door.admit })
}

const SPEAKING: Round = ({ say }) => say(open('a'), delta('a', 'Half'))

/** A turn that has begun to speak. */
async function speaking(log?: TurnLog, clock = fakeClock(1_000_000)) {
  const rig = newRig({ clock, rounds: [SPEAKING], ...(log !== undefined && { log }) })
  const door = new Door()
  const { turnId } = await submitTo(rig, door)
  const call = await rig.provider.called(1)
  await tick(clock)
  expect([door.admitted, door.left]).toEqual([1, []])
  return { ...rig, rig, door, turnId, call }
}

describe('an admitted turn is released once', () => {
  const ENDS: Record<string, (turn: Awaited<ReturnType<typeof speaking>>) => Promise<unknown>> = {
    'at its end': async ({ call }) => {
      call.say(end())
      call.stream.complete()
    },
    'when its provider fails': async ({ call }) => {
      call.say(broken('overloaded'))
      call.stream.complete()
    },
    'when its provider breaks off': async ({ call }) => call.stream.error(new Error('cut')),
    'when it is cancelled': ({ runner, turnId }) => runner.cancel(turnId, 'enough'),
    'when it reaches its time limit': ({ clock }) => clock.advance(30 * 60_000),
    'when it is deleted': ({ log, turnId }) => log.deleteTurn(turnId),
    'when the server ends': ({ runner, clock }) =>
      Promise.all([runner.shutdown(0), clock.advance(0)]),
  }

  test.each(Object.entries(ENDS))('%s', async (_name, finish) => {
    const turn = await speaking()
    await finish(turn)
    // A lease is the longest that anything takes to be noticed.
    await turn.clock.advance(LEASE_MS)
    await turn.settled()
    await tick(turn.clock)
    expect(turn.door.left).toEqual([1])
    await turn.runner.shutdown(0)
    await turn.clock.advance(3 * LEASE_MS)
    expect(turn.door.left).toEqual([1])
  })

  test('not earlier, and not while the server waits for it', async () => {
    const { runner, clock, call, door } = await speaking()
    const closed = runner.shutdown(60_000)
    await clock.advance(20_000)
    expect(door.left).toEqual([])
    call.say(end())
    call.stream.complete()
    await closed
    await tick(clock)
    expect(door.left).toEqual([1])
  })

  test('when the store stays away for longer than its lease', async () => {
    const clock = fakeClock(1_000_000)
    const log = new Leaving(clock)
    const { door, errors, runner } = await speaking(log, clock)
    log.isAway = true
    await clock.advance(2 * LEASE_MS)
    expect(runner.running).toBe(0)
    expect(errors).not.toEqual([])
    expect(door.left).toEqual([1])
  })

  test('when another process has claimed it', async () => {
    const clock = fakeClock(1_000_000)
    const log = new Leaving(clock)
    const { door, runner, turnId } = await speaking(log, clock)
    log.isAway = true
    await clock.advance(LEASE_MS - 1)
    await log.claimNow(turnId)
    log.isAway = false
    await clock.advance(LEASE_MS)
    expect(runner.running).toBe(0)
    expect(door.left).toEqual([1])
  })
})

/** A store that can go away, and in which a turn can be claimed before its time. */
class Leaving extends HookedLog {
  readonly #clock: FakeClock
  isAway = false

  constructor(clock: FakeClock) {
    super({ clock })
    this.#clock = clock
  }

  override renew: HookedLog['renew'] = async (lease, leaseMs) => {
    if (this.isAway) throw new TurnstreamError('STORE_UNAVAILABLE', 'renew')
    return super.renew(lease, leaseMs)
  }

  override append: HookedLog['append'] = async (...args) => {
    if (this.isAway) throw new TurnstreamError('STORE_UNAVAILABLE', 'append')
    return super.append(...args)
  }

  async claimNow(turnId: string): Promise<void> {
    await this.#clock.advance(1)
    await this.claim(turnId, 'another', LEASE_MS)
  }
}

describe('a turn that could not be created is released at once', () => {
  test('because its thread is busy', async () => {
    const { rig, door } = await speaking()
    await submitTo(rig, door, { runId: 'first', threadId: 'h' })
    await expect(submitTo(rig, door, { runId: 'second', threadId: 'h' })).rejects.toMatchObject({
      code: 'THREAD_BUSY',
    })
    expect([door.admitted, door.left]).toEqual([3, [3]])
  })

  test('because it exists, with the same body or another', async () => {
    const { rig, door, turnId } = await speaking()
    expect(await submitTo(rig, door)).toMatchObject({ turnId })
    const other = submitTo(rig, door, { input: [{ ...PROMPT, content: 'Ho' }] })
    await expect(other).rejects.toMatchObject({ code: 'SUBMIT_CONFLICT' })
    expect([door.admitted, door.left]).toEqual([3, [2, 3]])
  })

  test.each([false, true])(
    'or ends, at whichever call the store dies (it reached: %s)',
    async (reaches) => {
      let wasWhole = false
      for (let at = 1; !wasWhole; at += 1) {
        const clock = fakeClock()
        const memory = new HookedLog({ clock })
        const rounds = [[...answer('1', 'Done'), end()]]
        const rig = newRig({ log: mortalLog(memory, at, reaches), clock, rounds })
        const door = new Door()
        const submitted = submitTo(rig, door).catch(() => {})
        await clock.advance(3 * LEASE_MS)
        await submitted
        expect([at, rig.runner.running, door.admitted, door.left]).toEqual([at, 0, 1, [1]])
        await rig.runner.shutdown(0)
        expect(door.left).toEqual([1])
        wasWhole = (await memory.getTurn('r'))?.sealed === true
      }
    },
  )
})

describe('a submit that is not admitted', () => {
  test('gets the error of admit, and nothing is created', async () => {
    const rig = newRig()
    const door = new Door()
    door.isClosed = true
    for (const fields of [{ runId: 'r' }, { turnId: 't' }]) {
      await expect(submitTo(rig, door, fields)).rejects.toMatchObject({ code: 'TURNS_LIMITED' })
    }
    await expect(
      rig.runner.submit({ input: [PROMPT] }, { admit: door.admit }),
    ).rejects.toMatchObject({ code: 'TURNS_LIMITED' })
    expect((await rig.log.listThreads()).items).toEqual([])
    expect(rig.runner.running).toBe(0)
  })

  test('gets the existing turn, while it runs and after its end', async () => {
    const { rig, door, turnId, call, settled } = await speaking()
    door.isClosed = true
    expect(await submitTo(rig, door)).toMatchObject({ turnId })
    call.say(end())
    call.stream.complete()
    await settled()
    expect(await submitTo(rig, door)).toMatchObject({ turnId })
    const other = submitTo(rig, door, { input: [{ ...PROMPT, content: 'Ho' }] })
    await expect(other).rejects.toMatchObject({ code: 'SUBMIT_CONFLICT' })
    expect([door.admitted, door.left]).toEqual([1, [1]])
  })

  test('gets the error of admit, not a store error', async () => {
    const clock = fakeClock()
    const log = new HookedLog({ clock })
    log.getTurn = () => Promise.reject(new TurnstreamError('STORE_UNAVAILABLE', 'getTurn'))
    const door = new Door()
    door.isClosed = true
    const refused = submitTo(newRig({ clock, log }), door)
    await expect(refused).rejects.toMatchObject({ code: 'TURNS_LIMITED' })
  })
})

describe('admit is not called', () => {
  test('for a turn with an unknown model, or during shutdown', async () => {
    const rig = newRig()
    const door = new Door()
    const unknown = submitTo(rig, door, { providerId: 'nobody' })
    await expect(unknown).rejects.toMatchObject({ code: 'MODEL_UNKNOWN' })
    await rig.runner.shutdown(0)
    await expect(submitTo(rig, door)).rejects.toMatchObject({ code: 'SERVER_SHUTDOWN' })
    expect(door.admitted).toBe(0)
  })

  test('twice for two identical concurrent submits', async () => {
    const rig = newRig({ rounds: [SPEAKING] })
    const door = new Door()
    const [one, two] = await Promise.all([submitTo(rig, door), submitTo(rig, door)])
    expect(one).toEqual(two)
    expect([door.admitted, door.left]).toEqual([1, []])
    await Promise.all([rig.runner.shutdown(0), rig.clock.advance(0)])
    await tick(rig.clock)
    expect(door.left).toEqual([1])
  })
})
