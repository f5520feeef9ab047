import { GrowingText } from '@turnstream/core/internal/async/growing-text'
import type { TurnRecord } from '@turnstream/core/internal/log/turn-log'
import { ERROR_CODES } from '@turnstream/core/internal/protocol/errors'
import { isExecutedByProvider } from '@turnstream/core/internal/protocol/item-marks'
import type { OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type { ReducedResponse, ResponseItem } from '@turnstream/core/internal/protocol/response'
import { type StartedItem, startedItem } from '@turnstream/core/internal/protocol/started-items'
import type {
  ErrorObject,
  StreamEvent,
  StreamEventPayload,
} from '@turnstream/core/internal/protocol/stream-event'
import { isStreamEvent } from '@turnstream/core/internal/protocol/stream-event-guard'
import { ResponseReducer } from '@turnstream/core/internal/reducer/reduce'
import { MAX_RECORD_CHARS } from '../log/records.ts'
import type { EndReason } from './turn-control.ts'

/** How the response that contains the items ended. */
export type Settlement = EndReason | { readonly kind: 'done'; readonly finishReason: string | null }

interface OpenItem {
  readonly start: StreamEventPayload<'item_start'>
  readonly text: GrowingText
}

type FunctionCall = Extract<OutputItem, { type: 'function_call' }>

const UNFINISHED: ErrorObject = {
  code: 'UPSTREAM_TRUNCATED',
  message: 'The provider did not finish this item',
}

/**
 * Tracks the items in `events` that have not ended, and settles them when their turn ends. Takes every
 * payload of the log in order, live or replayed.
 */
export class UnsettledItems {
  readonly #open = new Map<string, OpenItem>()
  /** Finished calls without an output, by item id. */
  readonly #calls = new Map<string, FunctionCall>()
  /** Call ids of outputs that came before their call. */
  readonly #earlyOutputs = new Set<string>()
  #lastId = ''
  #lastText: GrowingText | undefined

  /** Returns whether the item is open, or is a call without its output. */
  has(itemId: string): boolean {
    return this.#open.has(itemId) || this.#calls.has(itemId)
  }

  /** Returns the item of the oldest call with this id that its provider runs now. */
  runningCall(callId: string): string | undefined {
    return this.#callsOf(callId).find(isRunByProvider)?.[0]
  }

  /** Returns the text that deltas have added to an open item. */
  streamedText(itemId: string): string {
    const item = this.#open.get(itemId)
    if (item === undefined) return ''
    const { initial_content = '', arguments: started = initial_content } = item.start
    return item.text.toString().slice(started.length)
  }

  /** Returns what was said of an open item. */
  started(itemId: string): StartedItem | undefined {
    const item = this.#open.get(itemId)
    return item && startedItem(item.start, item.text.toString())
  }

  /** `isInput`: the item is part of the request, so nobody waits for its output. */
  take(payload: StreamEventPayload, isInput = false): void {
    switch (payload.type) {
      case 'item_delta':
        this.#grow(payload.item_id, payload.delta_content)
        return
      case 'item_start': {
        const { initial_content, arguments: args } = payload
        const text = new GrowingText(args ?? initial_content)
        this.#open.set(payload.item_id, { start: payload, text })
        return
      }
      case 'item_done':
        this.#end(payload.item_id)
        if (!isInput) this.#finish(payload.item_id, payload.final_item)
        return
      case 'item_error':
      case 'item_cancelled':
        this.#end(payload.item_id)
        this.#calls.delete(payload.item_id)
        return
      default:
    }
  }

  /** Returns the events that end the open items. */
  settleOpen(how: Settlement): StreamEventPayload[] {
    return [...this.#open.values()].map((item) => settleOpenItem(item, how))
  }

  /** Returns the events that end every item except finished calls left to the client. */
  settleAll(how: Settlement): StreamEventPayload[] {
    const unanswered = [...this.#calls].filter(isRunByProvider)
    return [...this.settleOpen(how), ...unanswered.map(([id]) => settleCall(id, how))]
  }

  // Nearly every payload is a delta of the same item as the one before.
  #grow(itemId: string, text: string): void {
    if (itemId !== this.#lastId || this.#lastText === undefined) {
      this.#lastId = itemId
      this.#lastText = this.#open.get(itemId)?.text
    }
    this.#lastText?.append(text)
  }

  #end(itemId: string): void {
    this.#open.delete(itemId)
    if (itemId === this.#lastId) this.#lastText = undefined
  }

  #finish(itemId: string, final: OutputItem): void {
    if (final.type === 'function_call') {
      if (!this.#earlyOutputs.delete(final.call_id)) this.#calls.set(itemId, final)
    } else if (final.type === 'function_call_output') this.#answer(final.call_id)
  }

  /**
   * Answers the oldest call with this id: some vendors reuse ids. One that the client runs only if there is no other:
   * its output comes with another turn.
   */
  #answer(callId: string): void {
    const calls = this.#callsOf(callId)
    const [itemId] = calls.find(isRunByProvider) ?? calls[0] ?? []
    if (itemId === undefined) this.#earlyOutputs.add(callId)
    else this.#calls.delete(itemId)
  }

  #callsOf(callId: string): [itemId: string, call: FunctionCall][] {
    return [...this.#calls].filter(([, call]) => call.call_id === callId)
  }
}

/** Also true for calls that this server runs. */
function isRunByProvider([, call]: readonly [string, FunctionCall]): boolean {
  return isExecutedByProvider(call.provider_metadata)
}

function settleOpenItem({ start, text }: OpenItem, how: Settlement): StreamEventPayload {
  const { item_id, item_type: type, origin = 'agent', provider_metadata } = start
  if (how.kind !== 'cancelled') {
    const error = how.kind === 'failed' ? how.error : UNFINISHED
    return { type: 'item_error', item_id, error }
  }
  if (type === 'function_call') return cancelledCall(item_id, how.reason)
  if ((type !== 'message' && type !== 'reasoning') || text.length === 0) {
    return { type: 'item_cancelled', item_id, reason: how.reason }
  }
  const metadata = provider_metadata && { provider_metadata }
  const final_item: OutputItem = {
    type,
    id: item_id,
    content: text.toString(),
    origin,
    ...metadata,
  }
  return { type: 'item_done', item_id, final_item, finish_reason: 'cancelled' }
}

/** Settles a call that the server or the provider should have run. */
function settleCall(item_id: string, how: Settlement): StreamEventPayload {
  switch (how.kind) {
    case 'cancelled':
      return cancelledCall(item_id, how.reason)
    case 'failed':
      return { type: 'item_error', item_id, error: how.error }
    case 'done': {
      const message = `The call got no output; the response ended with "${how.finishReason}"`
      return { type: 'item_error', item_id, error: { code: 'ITEM_CANCELLED', message } }
    }
  }
}

function cancelledCall(item_id: string, reason: string): StreamEventPayload {
  const code = 'ITEM_CANCELLED'
  const message = reason === '' ? ERROR_CODES[code].summary : reason
  return { type: 'item_error', item_id, error: { code, message } }
}

/** Each request of an agent repeats the whole conversation. More of it is stored only once, in the events. */
const MAX_HISTORY_CHARS = 16_384

/**
 * Reduces a turn while it is written, without its deltas: they are nearly all events, and an item's last
 * event nearly always has its whole content. Otherwise the item's text so far is reduced as one delta.
 */
export class TurnResponse {
  readonly #reducer = new ResponseReducer()
  readonly #unsettled: Pick<UnsettledItems, 'streamedText'>

  constructor(unsettled: Pick<UnsettledItems, 'streamedText'>) {
    this.#unsettled = unsettled
  }

  /** Takes an event other than a delta, before `unsettled` does. */
  take(event: StreamEvent): void {
    if (!isStreamEvent(event)) return // readers of the log ignore it, too
    const itemId = itemWithoutContent(event)
    const text = itemId === undefined ? '' : this.#unsettled.streamedText(itemId)
    if (itemId !== undefined && text !== '') this.#reducer.apply(deltaBefore(event, itemId, text))
    this.#reducer.apply(event)
  }

  /** The items so far, including those of the request. */
  get items(): readonly ResponseItem[] {
    return this.#reducer.response.output_items
  }

  /** Undefined if it is too large to be stored, or fails. Readers then use the events. */
  toJson(onError: (error: unknown) => void): string | undefined {
    try {
      const { response } = this.#reducer
      const maxChars = response.history_given ? MAX_HISTORY_CHARS : MAX_RECORD_CHARS
      if (!isShorterThan(maxChars, response.output_items)) return undefined
      const json = JSON.stringify(response)
      return json.length <= maxChars ? json : undefined
    } catch (error) {
      onError(error)
      return undefined
    }
  }
}

/** Rules out, without encoding it, a response that is too large. */
function isShorterThan(maxChars: number, items: readonly ResponseItem[]): boolean {
  let chars = 0
  for (const item of items) {
    if (item.type === 'message') {
      for (const { data } of item.attachments ?? []) chars += data.length
    }
    if ('content' in item && typeof item.content === 'string') chars += item.content.length
    else if ('output' in item && typeof item.output === 'string') chars += item.output.length
    if (chars > maxChars) return false
  }
  return true
}

/** Returns the item that the event ends without its content. */
function itemWithoutContent({ payload }: StreamEvent): string | undefined {
  switch (payload.type) {
    case 'item_error':
    case 'item_cancelled':
      return payload.item_id
    case 'item_done': {
      const { type } = payload.final_item
      return type === 'error' || type === 'cancelled' ? payload.item_id : undefined
    }
    default:
      return undefined
  }
}

function deltaBefore(event: StreamEvent, item_id: string, delta_content: string): StreamEvent {
  const type = 'item_delta'
  const event_id = `${event.event_id}:text`
  return { ...event, event_id, type, payload: { type, item_id, delta_content } }
}

/** Before its first event, a Response has no ids. */
export function withTurnIds(response: ReducedResponse, turn: TurnIds): ReducedResponse {
  if (response.turn_id !== '') return response
  const { turnId, runId, threadId, createdAt } = turn
  const created_at = response.created_at === 0 ? createdAt : response.created_at
  const updated_at = Math.max(response.updated_at, created_at)
  return { ...response, id: runId, turn_id: turnId, thread_id: threadId, created_at, updated_at }
}

type TurnIds = Pick<TurnRecord, 'turnId' | 'runId' | 'threadId' | 'createdAt'>
