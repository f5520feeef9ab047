/** Runs one script of a turn in two ways: through the bare rules, and through the whole processor. */

import { fakeClock } from '../../../conformance/src/index.ts'
import {
  type ErrorCode,
  type StreamEvent,
  type StreamOutput,
  StreamProcessor,
} from '../../src/index.ts'
import { type ProcessorOptions, resolveOptions } from '../../src/processor/options.ts'
import { renderEmission } from '../../src/processor/outputs.ts'
import {
  createTurnState,
  type Emission,
  prerequisites,
  releaseItems,
  type StepInput,
  step,
} from '../../src/processor/step.ts'
import { THREAD_ID, TURN_ID } from './events.ts'

/** What happens: an event, or one of the things below. */
type Action = StreamEvent | { wait: number } | { sink: 'fails' | 'accepts' } | 'flush' | 'destroy'

export interface Row {
  name: string
  options?: Omit<Partial<ProcessorOptions>, 'turnId' | 'threadId' | 'onEmit' | 'clock' | 'onError'>
  script: readonly Action[]
  /** What the sink accepted, in order; fields that are not named are not looked at. */
  shows: readonly object[]
  /** The codes given to `onError`, in order. */
  reports?: readonly ErrorCode[]
}

export interface Outcome {
  shown: StreamOutput[]
  reported: ErrorCode[]
}

/** A refused emission is given up at once in both runs, so that they can be compared. */
const NO_RETRY = { retryAttempts: 0 }

export function runRules({ options, script }: Row): Outcome {
  const outcome: Outcome = { shown: [], reported: [] }
  const ids = { turnId: TURN_ID, threadId: THREAD_ID }
  const turn = createTurnState(resolveOptions({ ...ids, ...NO_RETRY, ...options, onEmit() {} }))
  let now = 0
  let wakeAt = Infinity
  let accepts = true

  function attempt(emission: Emission): boolean {
    const output = renderEmission(turn.rules, emission)
    if (output === undefined || accepts) step(turn, { type: 'emitted', emission }, now)
    else step(turn, { type: 'emit_failed', emission }, now)
    if (output !== undefined && accepts) outcome.shown.push(output)
    return accepts
  }

  function deliver(emission: Emission): void {
    for (const needed of prerequisites(turn, emission)) {
      if (attempt(needed) || needed.kind !== 'opening') continue
      step(turn, { type: 'emit_failed', emission }, now)
      return
    }
    attempt(emission)
  }

  function take(input: StepInput): void {
    const emissions: Emission[] = []
    for (const effect of step(turn, input, now)) {
      if (effect.do === 'emit') emissions.push(effect.emission)
      else if (effect.do === 'wake') wakeAt = effect.at
      else if (effect.do === 'sleep') wakeAt = Infinity
      else outcome.reported.push(effect.error.code)
    }
    for (const emission of emissions) deliver(emission)
  }

  function wait(ms: number): void {
    const until = now + ms
    while (wakeAt <= until) {
      now = wakeAt
      wakeAt = Infinity
      take({ type: 'timer' })
    }
    now = until
  }

  for (const action of script) {
    if (action === 'flush') take({ type: 'flush' })
    else if (action === 'destroy') {
      take({ type: 'flush' })
      releaseItems(turn)
      wakeAt = Infinity
    } else if ('wait' in action) wait(action.wait)
    else if ('sink' in action) accepts = action.sink === 'accepts'
    else take(action)
  }
  return outcome
}

export async function runProcessor({ options, script }: Row): Promise<Outcome> {
  const outcome: Outcome = { shown: [], reported: [] }
  const clock = fakeClock()
  let accepts = true
  const processor = new StreamProcessor({
    turnId: TURN_ID,
    threadId: THREAD_ID,
    ...NO_RETRY,
    ...options,
    clock,
    onEmit: async (message, output) => {
      await Promise.resolve()
      if (!accepts) throw new Error('the sink is down')
      if (JSON.stringify(output) !== message.payload) throw new Error('payload is not the output')
      outcome.shown.push(output)
    },
    onError: (error) => {
      // Only the rules report in both runs; a failed timer emission is a matter of the shell.
      if (error.code !== 'RETRY_EXHAUSTED') outcome.reported.push(error.code)
    },
  })
  for (const action of script) {
    if (action === 'flush') await Promise.allSettled([processor.flush()])
    else if (action === 'destroy') await Promise.allSettled([processor.destroy()])
    else if ('wait' in action) await clock.advance(action.wait)
    else if ('sink' in action) accepts = action.sink === 'accepts'
    else await Promise.allSettled([processor.processEvent(action)])
  }
  return outcome
}
