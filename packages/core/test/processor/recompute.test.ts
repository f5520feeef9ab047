import { describe, expect, test } from 'vitest'
import { DEMOS, toolsTurn } from '../../../../test/demo-recordings.ts'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { StreamEvent, StreamOutput } from '../../src/index.ts'
import { OutputReplay } from '../../src/processor/recompute.ts'
import { LiveProcessor } from '../../src/processor/stream-processor.ts'

const IDS = { turnId: 't', threadId: 'h' }

interface Shown {
  readonly at: number
  readonly output: StreamOutput
}

/** What a gateway would emit, with timers. */
async function live(events: readonly StreamEvent[]): Promise<Shown[]> {
  const clock = fakeClock()
  const shown: Shown[] = []
  const onShow = (output: StreamOutput) => void shown.push({ at: clock.now(), output })
  const processor = new LiveProcessor({ ...IDS, clock, onShow })
  for (const event of events) {
    await clock.advance(event.timestamp - clock.now())
    processor.apply(event)
  }
  processor.release()
  return shown
}

function recomputed(events: readonly StreamEvent[]): Shown[] {
  const shown: Shown[] = []
  const replay = new OutputReplay(IDS, (output, at) => shown.push({ at, output }))
  for (const event of events) replay.apply(event, event.timestamp)
  return shown
}

/** A slow model: each delta after a longer pause than the one before. */
function slowTurn(): StreamEvent[] {
  let at = 0
  return toolsTurn().map((event, index) => {
    at += index % 7 === 0 ? 1700 : index % 3 === 0 ? 400 : 0
    return { ...event, timestamp: at }
  })
}

describe('recomputed outputs equal the outputs of a running turn, with their times', () => {
  const { answer, thinking, error } = DEMOS
  test.each([
    ['answer', answer],
    ['thinking', thinking],
    ['error', error],
    ['tools', toolsTurn()],
    ['a slow turn', slowTurn()],
  ])('%s', async (_name, events) => {
    const expected = await live(events)
    expect(recomputed(events)).toEqual(expected)
    expect(expected.length).toBeGreaterThan(3)
  })
})

test('the timer emits text before a long pause', () => {
  const events = slowTurn()
  const times = new Set(events.map(({ timestamp }) => timestamp))
  expect(recomputed(events).some(({ at }) => !times.has(at))).toBe(true)
})

test('an event for an unknown item is ignored', () => {
  const shown: StreamOutput[] = []
  const replay = new OutputReplay(IDS, (output) => shown.push(output))
  const [start] = toolsTurn()
  const payload = { type: 'item_delta', item_id: 'none', delta_content: 'x' } as const
  replay.apply({ ...start!, type: 'item_delta', payload }, 0)
  replay.apply({ type: 'flush' }, 0)
  expect(shown).toEqual([])
})

test('a flush emits what is left of a turn without an end', () => {
  const shown: StreamOutput[] = []
  const replay = new OutputReplay(IDS, (output) => shown.push(output))
  const events = toolsTurn().slice(0, 12)
  for (const event of events) replay.apply(event, event.timestamp)
  const before = shown.length
  replay.apply({ type: 'flush' }, events.at(-1)!.timestamp)
  expect(shown.slice(before)).toHaveLength(1)
})
