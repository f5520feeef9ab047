import { ERROR_CODES } from '../protocol/errors.ts'
import { isInputItem } from '../protocol/item-ids.ts'
import type { FunctionCall } from '../protocol/output-item.ts'
import type { ErrorObject, StreamEventPayload } from '../protocol/stream-event.ts'
import { isExecutedByProvider } from './marks.ts'
import { initialText, itemSoFar, type OpenItem, OpenItems } from './open-items.ts'
import { UnansweredCalls } from './unanswered-calls.ts'

/** How the response that contains the items ended. */
export type Settlement =
  | { readonly kind: 'done'; readonly finishReason: string | null }
  | { readonly kind: 'cancelled'; readonly reason: string }
  | { readonly kind: 'failed'; readonly error: ErrorObject }

const UNFINISHED: ErrorObject = {
  code: 'UPSTREAM_TRUNCATED',
  message: 'The provider did not finish this item',
}

/** Tracks the open items of a turn, and settles them when it ends. Takes every payload of the log in order. */
export class UnsettledItems {
  readonly #runId: string
  readonly #open = new OpenItems()
  readonly #calls = new UnansweredCalls<FunctionCall, true>()

  constructor(runId: string) {
    this.#runId = runId
  }

  find(itemId: string): OpenItem | undefined {
    return this.#open.find(itemId)
  }

  /** Returns whether the item is open, or is a call without its output. */
  has(itemId: string): boolean {
    return this.#open.find(itemId) !== undefined || this.#calls.has(itemId)
  }

  /** Finished calls without an output, oldest first. */
  get calls(): FunctionCall[] {
    return this.#calls.all
  }

  /** Returns the item of the oldest call with this id that its provider runs now. */
  runningCall(callId: string): string | undefined {
    return this.#calls.withId(callId).find(isRunByProvider)?.id
  }

  /** Returns the text that deltas have added to an open item. */
  streamedText(itemId: string): string {
    const item = this.#open.find(itemId)
    return item?.text.toString().slice(initialText(item.start).length) ?? ''
  }

  get soFar(): OpenItems['soFar'] {
    return this.#open.soFar
  }

  apply(payload: StreamEventPayload): void {
    this.#open.apply(payload)
    if (payload.type === 'item_error' || payload.type === 'item_cancelled') {
      this.#calls.delete(payload.item_id)
    } else if (payload.type === 'item_done' && !isInputItem(this.#runId, payload.item_id)) {
      const { final_item: final } = payload
      if (final.type === 'function_call') this.#calls.add(payload.item_id, final.call_id, final)
      // The client's calls are answered only if there is no other: their outputs come with another turn.
      else if (final.type === 'function_call_output') {
        this.#calls.answer(final.call_id, true, isRunByProvider)
      }
    }
  }

  settleOpen(how: Settlement): StreamEventPayload[] {
    return this.#open.all.map((item) => settleOpenItem(item, how))
  }

  /** Returns the events that end every item except finished calls left to the client. */
  settleAll(how: Settlement): StreamEventPayload[] {
    const unanswered = this.calls.filter(isRunByProvider)
    return [...this.settleOpen(how), ...unanswered.map(({ id }) => settleCall(id, how))]
  }
}

/** Also true for calls that this server runs. */
function isRunByProvider({ provider_metadata }: FunctionCall): boolean {
  return isExecutedByProvider(provider_metadata)
}

function settleOpenItem({ start, text }: OpenItem, how: Settlement): StreamEventPayload {
  const { item_id, item_type: type } = start
  if (how.kind === 'done') return { type: 'item_error', item_id, error: UNFINISHED }
  if (how.kind === 'failed' || type === 'function_call') return settleCall(item_id, how)
  if ((type !== 'message' && type !== 'reasoning') || text.length === 0) {
    return { type: 'item_cancelled', item_id, reason: how.reason }
  }
  const final_item = itemSoFar(start, text.toString())
  return { type: 'item_done', item_id, final_item, finish_reason: 'cancelled' }
}

/** Settles a call that the server or the provider should have run. */
function settleCall(item_id: string, how: Settlement): StreamEventPayload {
  return { type: 'item_error', item_id, error: callError(how) }
}

function callError(how: Settlement): ErrorObject {
  if (how.kind === 'failed') return how.error
  const code = 'ITEM_CANCELLED'
  if (how.kind === 'cancelled') return { code, message: how.reason || ERROR_CODES[code].summary }
  return { code, message: `The call got no output; the response ended with "${how.finishReason}"` }
}
