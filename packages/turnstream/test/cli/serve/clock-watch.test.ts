import { expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { watchClock } from '../../../src/cli/serve/run-server.ts'

test('warns once about each step of the system clock, with its size', async () => {
  const clock = fakeClock()
  const warnings: string[] = []
  const stop = watchClock({ warn: (text) => warnings.push(text) }, clock)
  await clock.advance(10_000)
  expect(warnings).toEqual([])
  clock.step(8000)
  await clock.advance(10_000)
  clock.step(-3000)
  await clock.advance(10_000)
  expect(warnings).toEqual([
    'the system clock was set forward by 8000 ms',
    'the system clock was set back by 3000 ms',
  ])
  stop()
  expect(clock.pending()).toBe(0)
})
