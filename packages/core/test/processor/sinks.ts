import { fakeClock } from '../../../conformance/src/index.ts'
import {
  type ProcessorOptions,
  type StreamMessage,
  type StreamOutput,
  StreamProcessor,
  type TurnstreamError,
} from '../../src/index.ts'
import { THREAD_ID, TURN_ID } from './events.ts'

/** A processor on a fake clock with a sink that the test decides for, call by call. */
export function setUp(
  options: Partial<ProcessorOptions> = {},
  answer: (call: number, output: StreamOutput) => Promise<void> | void = () => {},
) {
  const clock = fakeClock()
  const calls: StreamMessage[] = []
  const accepted: StreamOutput[] = []
  const errors: TurnstreamError[] = []
  const processor = new StreamProcessor({
    turnId: TURN_ID,
    threadId: THREAD_ID,
    clock,
    onError: (error) => errors.push(error),
    onEmit: async (message, output) => {
      calls.push(message)
      await answer(calls.length, output)
      accepted.push(output)
    },
    ...options,
  })
  return { processor, clock, calls, accepted, errors }
}

/** A sink that holds back every answer until the test lets it go. */
export function gate() {
  const waiting: (() => void)[] = []
  let isOpen = false
  return {
    pass: () => (isOpen ? undefined : new Promise<void>((resolve) => waiting.push(resolve))),
    releaseOne: () => waiting.shift()?.(),
    open() {
      isOpen = true
      for (const release of waiting.splice(0)) release()
    },
  }
}

/** Whether a promise has settled by now, and how. */
export function watch(promise: Promise<unknown>) {
  const state: { settled: 'no' | 'resolved' | 'rejected'; error?: unknown } = { settled: 'no' }
  promise.then(
    () => {
      state.settled = 'resolved'
    },
    (error: unknown) => {
      state.settled = 'rejected'
      state.error = error
    },
  )
  return state
}
