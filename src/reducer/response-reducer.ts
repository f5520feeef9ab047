import type { ReducedResponse } from '../protocol/response.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'
import { initialReducerState, type ReducerState, reduce, toResponse } from './reduce.ts'

/** Keeps the state of one turn for callers that have no use for the earlier ones. */
export class ResponseReducer {
  #state: ReducerState = initialReducerState()
  #response: ReducedResponse | undefined

  apply(event: StreamEvent): this {
    const next = reduce(this.#state, event)
    if (next !== this.#state) this.#response = undefined
    this.#state = next
    return this
  }

  /** The Response as it stands; the same object until an event is applied that is new. */
  get response(): ReducedResponse {
    this.#response ??= toResponse(this.#state)
    return this.#response
  }
}
