import { type Clock, systemClock } from '@turnstream/core/internal/async/clock'
import {
  type ResponseStream,
  ResponseStreamError,
} from '@turnstream/core/internal/async/response-stream'
import type { ProviderRequest } from '@turnstream/core/internal/formats/provider-request'
import { isExecutedByProvider } from '@turnstream/core/internal/items/marks'
import type { ResponseEvent } from '@turnstream/core/internal/protocol/response'
import type { ItemType, StreamEventPayload } from '@turnstream/core/internal/protocol/stream-event'
import { CallStream, MAX_BUFFERED_EVENTS, type Provider } from './provider.ts'

/** A provider that can also be called without a turn. */
export interface ModelClient extends Provider {
  /**
   * Calls the model and yields ResponseEvents. Iteration throws STREAM_ERROR when the call fails; its cause has the
   * provider's code. Aborting the stream or the signal stops the call.
   */
  responseEvents(request: ProviderRequest, signal?: AbortSignal): ResponseStream
}

export function toModelClient(provider: Provider, clock: Clock = systemClock): ModelClient {
  return {
    ...provider,
    responseEvents(request, signal) {
      const id = crypto.randomUUID()
      const run = { runId: id, turnId: id, threadId: id }
      const events = new CallStream<ResponseEvent>(signal, clock)
      void forward(provider.stream(request, run, events.signal), events)
      return events
    },
  }
}

/** Never rejects. */
async function forward(
  payloads: ResponseStream<StreamEventPayload>,
  events: ResponseStream,
): Promise<void> {
  const translation = new ResponseEventTranslation()
  try {
    await payloads.consume((payload) => {
      const event = translation.translate(payload)
      if (event === undefined) return undefined
      if (events.getBufferSize() >= MAX_BUFFERED_EVENTS) return events.send(event)
      events.addEvent(event)
      return undefined
    })
    events.complete()
  } catch (error) {
    events.error(error)
  }
}

/** What vendors call the search that they run themselves. */
const WEB_SEARCHES: ReadonlySet<unknown> = new Set(['web_search', 'web_search_call'])

/** Translates the payloads of one call. Argument fragments have no ResponseEvent: the finished call does. */
class ResponseEventTranslation {
  readonly #types = new Map<string, ItemType>()

  /** Throws when the call failed. */
  translate(payload: StreamEventPayload): ResponseEvent | undefined {
    switch (payload.type) {
      case 'response_start':
        return { type: 'Created' }
      case 'item_start':
        return this.#start(payload)
      case 'item_delta':
        return deltaOf(this.#types.get(payload.item_id), payload.delta_content)
      case 'item_done':
        this.#types.delete(payload.item_id)
        return { type: 'OutputItemDone', item: payload.final_item }
      case 'response_done': {
        const { response_id: responseId, usage } = payload
        return { type: 'Completed', responseId, ...(usage && { tokenUsage: usage }) }
      }
      case 'response_error':
        throw new ResponseStreamError(payload.error.message, payload.error.code)
      case 'turn_aborted_by_user':
        throw new ResponseStreamError(payload.reason ?? 'The response was cancelled', 'ABORTED')
      default:
        return undefined
    }
  }

  #start(payload: StreamEventPayload<'item_start'>): ResponseEvent | undefined {
    const { item_id, item_type, name, call_id, initial_content, provider_metadata } = payload
    // A recording may contain the prompt.
    if (payload.origin === 'user') return undefined
    this.#types.set(item_id, item_type)
    if (initial_content) return deltaOf(item_type, initial_content)
    const isSearch = WEB_SEARCHES.has(name) && isExecutedByProvider(provider_metadata)
    if (!isSearch || item_type !== 'function_call' || call_id === undefined) return undefined
    return { type: 'WebSearchCallBegin', callId: call_id }
  }
}

function deltaOf(type: ItemType | undefined, delta: string): ResponseEvent | undefined {
  if (type === 'message') return { type: 'OutputTextDelta', delta }
  if (type === 'reasoning') return { type: 'ReasoningContentDelta', delta }
  return undefined
}
