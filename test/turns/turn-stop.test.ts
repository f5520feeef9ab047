import { describe, expect, test } from 'vitest'
import { type StopReason, TurnStop } from '../../src/turns/turn-stop.ts'

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

describe('what stops a turn', () => {
  test.each(rows)('is $name', ({ reasons, decides }) => {
    const stop = new TurnStop()
    for (const reason of reasons) stop.stop(reason)
    expect(stop.reason).toBe(decides)
    expect(stop.signal.aborted).toBe(true)
  })

  test('is nothing when it is over by itself', () => {
    const stop = new TurnStop()
    expect(stop.signal.aborted).toBe(false)
    stop.release()
    expect(stop.reason).toBeUndefined()
    expect(stop.signal.aborted).toBe(true)
  })
})
