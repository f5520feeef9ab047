import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { MemoryLog } from '../../src/server.ts'
import { type StopReason, TurnControl } from '../../src/turns/turn-control.ts'

const CANCELLED: StopReason = { kind: 'cancelled', reason: 'enough' }
const FAILED: StopReason = { kind: 'failed', error: { code: 'X', message: 'x' } }
const LOST: StopReason = { kind: 'lost', error: new Error('gone') }
const LOST_AGAIN: StopReason = { kind: 'lost', error: new Error('still gone') }

const rows: { name: string; reasons: StopReason[]; decides: StopReason }[] = [
  { name: 'a cancel', reasons: [CANCELLED], decides: CANCELLED },
  { name: 'a cancel before a failure', reasons: [CANCELLED, FAILED], decides: CANCELLED },
  { name: 'a failure before a cancel', reasons: [FAILED, CANCELLED], decides: FAILED },
  { name: 'a loss after a cancel', reasons: [CANCELLED, LOST], decides: LOST },
  { name: 'a loss after a failure', reasons: [FAILED, LOST], decides: LOST },
  { name: 'a loss before a cancel', reasons: [LOST, CANCELLED], decides: LOST },
  { name: 'a loss before a loss', reasons: [LOST, LOST_AGAIN], decides: LOST },
]

async function newControl() {
  const clock = fakeClock(1_000_000)
  const log = new MemoryLog({ clock })
  const lease = await log.create({ turnId: 'r', threadId: 'h', owner: 'me' }, 10_000)
  const lost: unknown[] = []
  const control = new TurnControl({
    ...{ log, lease, leaseMs: 10_000, since: clock.now(), maxTurnTimeMs: 60_000, clock },
    stalledMs: () => 0,
    onCancelled: () => {},
    onLost: (error) => lost.push(error),
  })
  return { clock, log, control, lost }
}

describe('what stops a turn', () => {
  test.each(rows)('is $name', async ({ reasons, decides }) => {
    const { clock, control, lost } = await newControl()
    for (const reason of reasons) {
      if (reason.kind === 'lost') control.lose(reason.error)
      else control.stop(reason)
    }
    expect(control.reason).toEqual(decides)
    expect(control.signal.aborted).toBe(true)
    expect(lost).toEqual(decides.kind === 'lost' ? [decides.error] : [])
    control.release()
    expect(clock.pending()).toBe(0)
  })

  test('is nothing once it is over', async () => {
    const { clock, control, lost } = await newControl()
    expect(control.signal.aborted).toBe(false)
    control.release()
    control.stop({ kind: 'cancelled', reason: 'late' })
    control.lose(new Error('late'))
    expect([control.reason, lost]).toEqual([undefined, []])
    expect(control.signal.aborted).toBe(true)
    expect(clock.pending()).toBe(0)
  })

  test('is its time limit, unless the provider is done', async () => {
    const limited = await newControl()
    await limited.clock.advance(60_000)
    expect(limited.control.reason).toMatchObject({ error: { code: 'TURN_TIME_LIMIT' } })
    limited.control.release()
    const done = await newControl()
    done.control.endTimeLimit()
    await done.clock.advance(60_000)
    expect(done.control.reason).toBeUndefined()
    done.control.release()
  })
})
