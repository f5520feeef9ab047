import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DIALECTS, DialectFrames } from '../../../../web/src/inspect/dialects.ts'
import { Recording, upperBound } from '../../../../web/src/inspect/recording.ts'
import { apply, EMPTY_VIEW } from '../../../client/src/index.ts'
import { fakeClock } from '../../../conformance/src/index.ts'
import { type StreamEvent, type StreamOutput, StreamProcessor } from '../../../core/src/index.ts'
import { delta, done, open, responseDone, start } from '../../../core/test/processor/events.ts'
import { randomTurn } from '../../../core/test/processor/turns.ts'

/** What the processor of a server emits for these events at these times. */
async function processed(events: readonly StreamEvent[]): Promise<StreamOutput[]> {
  const clock = fakeClock()
  const outputs: StreamOutput[] = []
  const processor = new StreamProcessor({
    turnId: 'turn-1',
    threadId: 'thread-1',
    clock,
    onEmit: (_message, output) => void outputs.push(output),
  })
  const first = events[0]?.timestamp ?? 0
  let last = first
  for (const event of events) {
    await clock.advance(event.timestamp - last)
    last = event.timestamp
    await processor.processEvent(event)
  }
  return outputs
}

function recorded(events: readonly StreamEvent[]): Recording {
  const recording = new Recording()
  for (const [index, event] of events.entries()) recording.add(`1-${index + 1}`, event)
  return recording
}

/** Events at the given pauses. */
function timed(events: readonly StreamEvent[], pauses: readonly number[]): StreamEvent[] {
  let timestamp = 1_000_000
  return events.map((event, index) => {
    timestamp += index === 0 ? 0 : (pauses[index % pauses.length] ?? 0)
    return { ...event, timestamp }
  })
}

const pauses = fc.array(fc.constantFrom(0, 1, 20, 300, 1000, 1003, 1500, 3000, 4000), {
  minLength: 1,
  maxLength: 12,
})

describe('a recording', () => {
  test('has the emissions of the server', async () => {
    await fc.assert(
      fc.asyncProperty(randomTurn, pauses, async ({ events }, between) => {
        const turn = timed(events, between)
        const outputs = recorded(turn).emissions.map(({ output }) => output)
        expect(outputs).toEqual(await processed(turn))
      }),
    )
  })

  test('shows at every event what a reader saw', () => {
    fc.assert(
      fc.property(randomTurn, pauses, ({ events }, between) => {
        const recording = recorded(timed(events, between))
        for (let count = 0; count <= recording.length; count++) {
          const seen = recording.emissions.filter((emission) => emission.events <= count)
          const view = seen.reduce((before, { output }) => apply(before, output), EMPTY_VIEW)
          expect(recording.viewAt(count)).toEqual(view)
        }
      }),
    )
  })

  test('shows no more text than it received, and all of it in the end', () => {
    fc.assert(
      fc.property(randomTurn, pauses, ({ events }, between) => {
        const recording = recorded(timed(events, between))
        for (let count = 0; count <= recording.length; count++) {
          expect(recording.shownAt(count)).toBeLessThanOrEqual(recording.received[count - 1] ?? 0)
        }
        expect(recording.shownAt(recording.length)).toBe(recording.received.at(-1))
      }),
    )
  })

  test('seeks in a long turn from the nearest checkpoint', () => {
    const items = Array.from({ length: 1200 }, (_, index) => `item-${index}`)
    const events = [
      start(),
      ...items.flatMap((id) => [open(id), delta(id, 'text'), done(id, 'text')]),
      responseDone(),
    ]
    const recording = recorded(timed(events, [1]))
    expect(recording.emissions.length).toBeGreaterThan(1000)
    const whole = recording.emissions.reduce((view, { output }) => apply(view, output), EMPTY_VIEW)
    expect(recording.viewAt(recording.length)).toEqual(whole)
  })

  test('does not go back when the clock of the server does', () => {
    const [first = start(), ...rest] = timed([start(), open('a'), delta('a', 'x')], [100])
    const recording = recorded([
      first,
      ...rest.map((event) => ({ ...event, timestamp: event.timestamp - 500 })),
    ])
    expect(recording.times).toEqual([0, 0, 0])
  })

  test('knows how much text had arrived', () => {
    const recording = recorded(
      timed([start(), open('a'), delta('a', 'Hi'), delta('a', ' you')], [50]),
    )
    expect(recording.received).toEqual([0, 0, 2, 6])
    expect([recording.indexAt(-1), recording.indexAt(0), recording.indexAt(120)]).toEqual([0, 1, 3])
    expect(recording.isOver).toBe(false)
  })
})

describe('frames of a dialect', () => {
  test('are the same whether they are encoded at once or as events arrive', () => {
    fc.assert(
      fc.property(randomTurn, ({ events }) => {
        const recording = new Recording()
        const growing = DIALECTS.map((dialect) => ({
          dialect,
          frames: new DialectFrames(recording, dialect),
        }))
        for (const [index, event] of timed(events, [30]).entries()) {
          recording.add(`1-${index + 1}`, event)
          for (const { frames } of growing) frames.update()
        }
        for (const { dialect, frames } of growing) {
          const whole = new DialectFrames(recording, dialect)
          whole.update()
          expect(frames.frames).toEqual(whole.frames)
          expect(frames.bytes.at(-1) ?? 0).toBe(Buffer.byteLength(frames.frames.join('')))
        }
      }),
    )
  })
})

test.each([
  [[], 5, 0],
  [[1, 2, 2, 3], 2, 3],
  [[1, 2, 2, 3], 0, 0],
  [[1, 2, 2, 3], 9, 4],
])('of %j, %i or less are the first %i', (values, limit, count) => {
  expect(upperBound(values, limit)).toBe(count)
})
