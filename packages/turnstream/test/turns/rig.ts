/** A TurnRunner with a provider that does what the test says, and short ways to see what came of it. */

import { type FakeClock, fakeClock } from '../../../conformance/src/index.ts'
import type { Submission } from '../../../core/src/formats/submission.ts'
import {
  type ProviderRequest,
  ResponseStream,
  type RunContext,
  type StreamEvent,
  type StreamEventPayload,
  type StreamOutput,
} from '../../../core/src/index.ts'
import type { LogName, TurnLog } from '../../../core/src/log/turn-log.ts'
import type { Provider } from '../../src/index.ts'
import { START } from '../../src/log/offsets.ts'
import {
  MemoryLog,
  Providers,
  type SubmitOptions,
  type Submitted,
  TurnRunner,
  type TurnRunnerOptions,
} from '../../src/server.ts'
import { line } from './payloads.ts'

/** One call of the provider, as the test sees it. */
export interface Call {
  readonly request: ProviderRequest
  readonly run: RunContext
  readonly signal: AbortSignal
  readonly stream: ResponseStream<StreamEventPayload>
  readonly say: (...payloads: readonly StreamEventPayload[]) => void
}

/** What the provider does in each round; past the last one it says nothing at all. */
export type Round = readonly StreamEventPayload[] | ((call: Call) => void)

export interface Puppet extends Provider {
  readonly calls: Call[]
  /** Resolves with the call of this number, from 1, as soon as it is made. */
  readonly called: (count: number) => Promise<Call>
}

export function puppet(rounds: readonly Round[] = [], id = 'puppet'): Puppet {
  const calls: Call[] = []
  let waiters: { count: number; resolve: (call: Call) => void }[] = []
  return {
    id,
    calls,
    called(count) {
      const call = calls[count - 1]
      if (call !== undefined) return Promise.resolve(call)
      return new Promise((resolve) => waiters.push({ count, resolve }))
    },
    stream(request, run, signal = new AbortController().signal) {
      const stream = new ResponseStream<StreamEventPayload>(signal, {
        eventTimeout: Infinity,
        maxBufferSize: Infinity,
      })
      const say = (...payloads: readonly StreamEventPayload[]): void => {
        for (const payload of payloads) stream.addEvent(payload)
      }
      const call: Call = { request, run, signal, stream, say }
      const round = rounds[calls.push(call) - 1]
      if (typeof round === 'function') round(call)
      else if (round !== undefined) {
        say(...round)
        stream.complete()
      }
      for (const { count, resolve } of waiters) if (count === calls.length) resolve(call)
      waiters = waiters.filter(({ count }) => count !== calls.length)
      return stream
    },
  }
}

export function enveloped(payload: StreamEventPayload, run_id = 'vendor'): StreamEvent {
  return {
    event_id: 'of-the-vendor',
    timestamp: 0,
    trace_context: { traceparent: '' },
    run_id,
    type: payload.type,
    payload,
  } as StreamEvent
}

export interface Rig {
  readonly log: TurnLog
  readonly clock: FakeClock
  readonly provider: Puppet
  readonly runner: TurnRunner
  /** What was told to `onError`, by code or message. */
  readonly errors: string[]
  readonly submit: (submission?: Partial<Submission>, options?: SubmitOptions) => Promise<Submitted>
  /** Resolves when the turns that run have ended. */
  readonly settled: () => Promise<void>
}

type RigOptions = Partial<Omit<TurnRunnerOptions, 'clock' | 'providers'>> & {
  readonly rounds?: readonly Round[]
  readonly clock?: FakeClock
  readonly provider?: Puppet
}

export const LEASE_MS = 3000

export function newRig({ rounds = [], ...options }: RigOptions = {}): Rig {
  const clock = options.clock ?? fakeClock(1_000_000)
  const log = options.log ?? new MemoryLog({ clock })
  const provider = options.provider ?? puppet(rounds)
  const errors: string[] = []
  let made = 0
  const runner = new TurnRunner({
    instance: 'the rig',
    leaseMs: LEASE_MS,
    generateId: () => `id-${++made}`,
    onError: (error) => errors.push(nameOf(error)),
    ...options,
    log,
    clock,
    providers: new Providers([{ provider, models: ['small', 'large'], defaultModel: 'small' }]),
  })
  return {
    log,
    clock,
    provider,
    runner,
    errors,
    submit: (submission = {}, submitOptions = {}) =>
      runner.submit({ runId: 'r', input: [PROMPT], ...submission }, submitOptions),
    settled: () => settled(runner, clock),
  }
}

export const PROMPT = { type: 'message', origin: 'user', content: 'Hi' } as const

function nameOf(error: unknown): string {
  if (error instanceof Error && 'code' in error) return String(error.code)
  return error instanceof Error ? error.message : String(error)
}

async function settled(runner: TurnRunner, clock: FakeClock): Promise<void> {
  while (runner.running > 0) await clock.advance(0)
}

export function tick(clock: FakeClock): Promise<void> {
  return clock.advance(0)
}

/** What a log holds now, sealed or not. */
export async function readLog(log: TurnLog, turnId: string, name: LogName): Promise<string[]> {
  const texts: string[] = []
  const controller = new AbortController()
  const tail = log.tail(turnId, name, START, controller.signal)[Symbol.asyncIterator]()
  for (;;) {
    const next = await Promise.race([tail.next(), quiet()])
    if (next === undefined || next.done === true) break
    if ('data' in next.value) texts.push(next.value.data)
  }
  controller.abort()
  return texts
}

/** The promise jobs of a log in memory are done after a macrotask. */
function quiet(): Promise<undefined> {
  return new Promise((resolve) => {
    setImmediate(() => setImmediate(() => resolve(undefined)))
  })
}

export async function eventsOf(log: TurnLog, turnId = 'r'): Promise<StreamEvent[]> {
  return (await readLog(log, turnId, 'events')).map((text) => JSON.parse(text) as StreamEvent)
}

export async function payloadsOf(log: TurnLog, turnId = 'r'): Promise<StreamEventPayload[]> {
  return (await eventsOf(log, turnId)).map(({ payload }) => payload)
}

export async function outputsOf(log: TurnLog, turnId = 'r'): Promise<StreamOutput[]> {
  return (await readLog(log, turnId, 'processed')).map((text) => JSON.parse(text) as StreamOutput)
}

/** The events of a turn after its opening, each as a line. */
export async function storyOf(log: TurnLog, turnId = 'r'): Promise<string[]> {
  const lines = (await payloadsOf(log, turnId)).map(line)
  return lines.filter((each) => !each.includes('-user-prompt') && !each.startsWith('begin'))
}
