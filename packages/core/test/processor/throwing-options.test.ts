import { expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { type StreamOutput, StreamProcessor } from '../../src/index.ts'
import { delta, open, responseDone, start } from './events.ts'

test.each([1, 2, 3, 4, 5])('estimateTokens that throws at call %i loses nothing', async (at) => {
  const outputs: StreamOutput[] = []
  const errors: string[] = []
  let calls = 0
  const processor = new StreamProcessor({
    turnId: 't',
    threadId: 'th',
    clock: fakeClock(),
    estimateTokens: () => {
      calls += 1
      if (calls >= at) throw new Error('no estimate')
      return 0
    },
    onError: ({ code }) => {
      errors.push(code)
      throw new Error('nobody listens')
    },
    onEmit: (_message, output) => {
      outputs.push(output)
    },
  })
  for (const event of [start(), open('a'), delta('a', 'x'), delta('a', 'y'), responseDone()]) {
    await processor.processEvent(event)
  }
  expect(outputs.at(-2)).toMatchObject({ itemId: 'a', content: 'xy' })
  expect(outputs.at(-1)).toMatchObject({ type: 'turn_complete' })
  expect(errors).toEqual(calls >= at ? ['OPTION_INVALID'] : [])
})
