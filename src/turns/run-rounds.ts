import type { ProviderRequest, RunContext } from '../adapters/provider.ts'
import type { Clock } from '../async/clock.ts'
import type { ResponseStream } from '../async/response-stream.ts'
import { onAbort } from '../log/on-abort.ts'
import type { Lease } from '../log/turn-log.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { StreamEventPayload, TraceContext } from '../protocol/stream-event.ts'
import { providerFault } from './provider-fault.ts'
import type { ChosenModel } from './providers.ts'
import type { FunctionCall } from './round-calls.ts'
import { runTool } from './run-tool.ts'
import type { ToolRegistry } from './tool-registry.ts'
import { failed, isReliable } from './turn-ending.ts'
import type { TurnSettings } from './turn-request.ts'
import type { TurnScript } from './turn-script.ts'
import type { TurnStop } from './turn-stop.ts'
import type { TurnWriter } from './turn-writer.ts'

/** What is asked of a model, and in which turn. */
export interface TurnPlan extends ChosenModel {
  readonly threadId: string
  readonly settings: TurnSettings
  readonly traceContext: TraceContext
}

export interface RoundsOptions {
  readonly plan: TurnPlan
  readonly lease: Lease
  readonly script: TurnScript
  readonly writer: TurnWriter
  readonly stop: TurnStop
  readonly tools: ToolRegistry
  readonly maxRounds: number
  readonly clock: Clock
  readonly onError: (error: unknown) => void
  /** Called once, when the first piece of an answer is there. */
  readonly onAnswered: () => void
  /** Called whenever a call to the provider is made again. */
  readonly onRetry: () => void
}

/**
 * Asks the provider, runs the tools that it calls, tells it their answers, and so on until it has said
 * what it wanted to say, needs the client, or is stopped. Never rejects for what a provider or tool does.
 */
export class Rounds {
  readonly #options: RoundsOptions
  #isAnswered = false

  constructor(options: RoundsOptions) {
    this.#options = options
  }

  /** `thread` is what was said so far. */
  async run(thread: readonly OutputItem[]): Promise<void> {
    const { script, stop, maxRounds } = this.#options
    for (let round = 1; stop.reason === undefined; round++) {
      const isFollowed = await this.#ask(thread, round)
      if (!isFollowed || stop.reason !== undefined) return
      if (round >= maxRounds) {
        stop.stop(failed('TURN_ROUND_LIMIT', `${maxRounds} rounds are allowed`))
        return
      }
      await this.#runTools(script.calls.forServer)
      if (script.calls.hasForClient) return
    }
  }

  /** One round; whether tools of this server are to answer it. */
  async #ask(thread: readonly OutputItem[], round: number): Promise<boolean> {
    const { plan, script, writer, stop, tools } = this.#options
    const request: ProviderRequest = {
      ...tools.settingsOf(plan.settings, round),
      model: plan.model,
      input: [...thread, ...script.items],
    }
    script.beginRound()
    await this.#listen(request, round)
    if (stop.reason !== undefined) return false
    await writer.writeAll(script.endRound())
    return script.end !== undefined && isReliable(script.end) && script.calls.forServer.length > 0
  }

  async #listen(request: ProviderRequest, round: number): Promise<void> {
    const { plan, script, stop, onError } = this.#options
    try {
      await this.#follow(plan.provider.stream(request, this.#contextOf(round), stop.signal))
    } catch (error) {
      if (stop.reason !== undefined) return
      onError(error)
      script.failRound(providerFault(error))
    }
  }

  async #follow(stream: ResponseStream<StreamEventPayload>): Promise<void> {
    const { script, writer, stop } = this.#options
    // A provider that does not heed the signal is not waited for.
    const forget = onAbort(stop.signal, () => stream.abort())
    try {
      for await (const said of stream) {
        const payload = script.take(said)
        if (payload !== undefined) this.#write(payload)
        else if (script.end !== undefined || this.#isPastCap()) break
        if (writer.isFull) await writer.room()
      }
    } finally {
      forget()
    }
  }

  #write(payload: StreamEventPayload): void {
    if (!this.#isAnswered) this.#noteAnswer(payload)
    this.#options.writer.write(payload)
  }

  #noteAnswer({ type }: StreamEventPayload): void {
    if (type !== 'item_delta' && type !== 'item_done') return
    this.#isAnswered = true
    this.#options.onAnswered()
  }

  #isPastCap(): boolean {
    const { script, stop } = this.#options
    const { excess: error } = script
    if (error === undefined) return false
    stop.stop({ kind: 'failed', error })
    return true
  }

  /** Each round is a run of its own to the provider, which makes ids of it. */
  #contextOf(round: number): RunContext {
    const { plan, lease, onRetry } = this.#options
    const { turnId, runId } = lease
    const { threadId } = plan
    const inner = round === 1 ? runId : `${runId}-${round}`
    return { runId: inner, turnId, threadId, onRetry }
  }

  async #runTools(calls: readonly FunctionCall[]): Promise<void> {
    await Promise.all(calls.map((call) => this.#runTool(call)))
  }

  async #runTool(call: FunctionCall): Promise<void> {
    const { plan, lease, script, writer, stop, tools, clock, onError } = this.#options
    const tool = tools.get(call.name)
    if (tool === undefined) return
    const { threadId } = plan
    const { turnId } = lease
    const { signal } = stop
    const answer = await runTool(tool, call, { turnId, threadId, clock, signal, onError })
    if (answer === undefined || stop.reason !== undefined) return
    await writer.writeAll(script.answer(call, answer))
    this.#isPastCap()
  }
}
