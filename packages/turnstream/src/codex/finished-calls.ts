import type { Clock } from '@turnstream/core/internal/async/clock'
import { IdleTimer } from '@turnstream/core/internal/async/idle-timer'
import type { StreamEventPayload } from '@turnstream/core/internal/protocol/stream-event'
import { isResponseEvent } from './connection.ts'

/** Notices when nothing follows the complete calls of a response: forwarded `response.*` events may lack an end. */
export class FinishedCalls {
  readonly #silence: IdleTimer
  readonly #open = new Set<string>()
  #hasFinished = false
  #hasResponseEvents = false

  constructor(quietMs: number, clock: Clock, onQuiet: () => void) {
    this.#silence = new IdleTimer(quietMs, clock, onQuiet)
  }

  apply(method: string, payloads: readonly StreamEventPayload[]): void {
    this.#hasResponseEvents ||= isResponseEvent(method) && payloads.length > 0
    for (const payload of payloads) this.#track(payload)
    if (this.#hasResponseEvents && this.#hasFinished && this.#open.size === 0) {
      this.#silence.startWait()
    } else this.#silence.endWait()
  }

  #track(payload: StreamEventPayload): void {
    if (payload.type === 'item_start') {
      if (payload.item_type === 'function_call') this.#open.add(payload.item_id)
    } else if (payload.type === 'item_done') {
      if (this.#open.delete(payload.item_id)) this.#hasFinished = true
    } else if (payload.type === 'item_error') this.#open.delete(payload.item_id)
  }

  stop(): void {
    this.#silence.stop()
  }
}
