import { payloads } from '../../../conformance/src/index.ts'
import {
  type ProviderRequest,
  ResponseStream,
  type RunContext,
  type StreamEventPayload,
} from '../../../core/src/index.ts'
import type { Provider } from '../../src/index.ts'

/** One call to a provider that says only what the test tells it to. */
export class HeldCall {
  readonly request: ProviderRequest
  readonly signal: AbortSignal
  readonly stream: ResponseStream<StreamEventPayload>
  readonly #run: RunContext
  #text = ''

  constructor(request: ProviderRequest, run: RunContext, signal: AbortSignal) {
    this.request = request
    this.signal = signal
    this.stream = new ResponseStream<StreamEventPayload>(signal, { eventTimeout: Infinity })
    this.#run = run
    const { turnId: turn_id, threadId: thread_id } = run
    const ids = { response_id: 'vendor', turn_id, thread_id }
    const names = { model_id: request.model, provider_id: 'held' }
    this.stream.addEvent(
      payloads.responseStart({ ...ids, ...names, created_at: 1_700_000_000_000 }),
    )
    this.stream.addEvent(payloads.itemStart('a', { origin: 'agent' }))
  }

  say(text: string): void {
    this.#text += text
    this.stream.addEvent(payloads.itemDelta('a', text))
  }

  finish(): void {
    this.stream.addEvent(payloads.itemDone(payloads.message('a', this.#text)))
    const usage = payloads.tokenUsage(3, 4)
    const end = { response_id: 'vendor', usage, finish_reason: 'stop' }
    this.stream.addEvent(payloads.responseDone(end))
    this.stream.complete()
  }

  get runId(): string {
    return this.#run.runId
  }
}

/** A provider whose calls wait for the test. */
export class HeldProvider implements Provider {
  readonly id = 'held'
  readonly calls: HeldCall[] = []
  #waiting: ((call: HeldCall) => void)[] = []

  stream(request: ProviderRequest, run: RunContext, signal = new AbortController().signal) {
    const call = new HeldCall(request, run, signal)
    this.calls.push(call)
    for (const tell of this.#waiting.splice(0)) tell(call)
    return call.stream
  }

  /** The next call that is made. */
  nextCall(): Promise<HeldCall> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
    })
  }
}
