import type { OutputItem } from '../protocol/output-item.ts'
import { isExecutedByProvider } from '../protocol/tool-execution.ts'
import type { TurnItem } from './turn-items.ts'

export type FunctionCall = Extract<OutputItem, { type: 'function_call' }>

/** The calls of a round that wait for an answer from outside the provider. */
export class RoundCalls {
  readonly #registry: ReadonlySet<string>
  readonly #unanswered = new Map<TurnItem, FunctionCall>()

  constructor(registry: ReadonlySet<string>) {
    this.#registry = registry
  }

  /** Whether a call of this name is for this server to run. */
  isRunHere(name: string | undefined, metadata: Record<string, unknown> | undefined): boolean {
    return name !== undefined && this.#registry.has(name) && !isExecutedByProvider(metadata)
  }

  clear(): void {
    this.#unanswered.clear()
  }

  /** Takes note of a finished item: a call waits from now on, and an output answers one. */
  note(item: TurnItem, final: OutputItem): void {
    if (final.type === 'function_call' && !isExecutedByProvider(final.provider_metadata)) {
      this.#unanswered.set(item, final)
    } else if (final.type === 'function_call_output') this.#answer(final.call_id)
  }

  drop(item: TurnItem): void {
    this.#unanswered.delete(item)
  }

  answered(call: FunctionCall): void {
    for (const [item, other] of this.#unanswered) if (other === call) this.#unanswered.delete(item)
  }

  /** Those that the tools of this server answer. */
  get forServer(): FunctionCall[] {
    return [...this.#unanswered.values()].filter(({ name }) => this.#registry.has(name))
  }

  /** Whether there are calls that the client has to answer. */
  get hasForClient(): boolean {
    return [...this.#unanswered.values()].some(({ name }) => !this.#registry.has(name))
  }

  /** The oldest call of this id: some vendors use an id twice. */
  #answer(callId: string): void {
    for (const [item, { call_id }] of this.#unanswered) {
      if (call_id !== callId) continue
      this.#unanswered.delete(item)
      return
    }
  }
}
