import type { ReducedResponse } from '../protocol/response.ts'
import type { StreamEvent, StreamEventPayload, Usage } from '../protocol/stream-event.ts'
import { normalizeEvent } from '../protocol/stream-event-guard.ts'
import {
  cancelItem,
  failItem,
  finishItem,
  growItem,
  type Items,
  listItems,
  NO_ITEMS,
  startedOf,
  startItem,
} from './items.ts'
import { IdIndex } from './ordered-map.ts'

type Head = Readonly<Omit<ReducedResponse, 'output_items' | 'updated_at'>>

/** State of a turn after some of its events. Read it with `toResponse`. */
export interface ReducerState {
  /** Ids of all events so far. */
  readonly seen: IdIndex
  readonly head: Head
  readonly items: Items
  readonly updatedAt: number
}

/** The state before the first event. */
export function initialReducerState(): ReducerState {
  return INITIAL
}

const INITIAL: ReducerState = {
  seen: IdIndex.empty,
  head: {
    id: '',
    turn_id: '',
    thread_id: '',
    model_id: '',
    provider_id: '',
    created_at: 0,
    status: 'queued',
    finish_reason: null,
    error: null,
  },
  items: NO_ITEMS,
  updatedAt: 0,
}

/**
 * Applies one event. Pure: `state` stays valid and may be reduced along another branch. The cost does not
 * depend on the number of earlier events.
 *
 * Returns `state` itself when the event is a duplicate or has no effect on the turn.
 */
export function reduce(state: ReducerState, given: StreamEvent): ReducerState {
  if (state.seen.has(given.event_id)) return state
  const event = normalize(state, given)
  if (hasEnded(state.head)) return reduceLate(state, event)
  const { head, items } = state
  switch (event.type) {
    case 'response_start':
      return record(state, event, startResponse(head, event.payload), items)
    case 'item_start':
      return record(state, event, head, startItem(items, event.payload))
    case 'item_delta':
      return record(state, event, head, growItem(items, event.payload))
    case 'item_done':
      return record(state, event, head, finishItem(items, event.payload))
    case 'item_error':
      return record(state, event, head, failItem(items, event.payload))
    case 'item_cancelled':
      return record(state, event, head, cancelItem(items, event.payload))
    case 'usage_update':
      return record(state, event, updateUsage(head, event.payload.usage), items)
    case 'response_done':
      return record(state, event, endResponse(head, event.payload), items)
    case 'response_error':
      return record(state, event, failResponse(head, event.payload), items)
    case 'turn_aborted_by_user':
      return record(state, event, abortResponse(head, event.payload), items)
    case 'heartbeat':
      return state
    default:
      return ignoreUnknown(state, event)
  }
}

/** Returns the Response so far. Its items are shared with the state and other Responses: treat them as read-only. */
export function toResponse(state: ReducerState): ReducedResponse {
  const output_items = listItems(state.items)
  return { ...state.head, updated_at: state.updatedAt, output_items }
}

function hasEnded({ status }: Head): boolean {
  return status !== 'queued' && status !== 'in_progress'
}

/** The first terminal event decides; only usage may follow it. */
function reduceLate(state: ReducerState, event: StreamEvent): ReducerState {
  const { head, items } = state
  const isUsage =
    event.type === 'usage_update' || (event.type === 'response_done' && head.usage === undefined)
  const usage = isUsage ? event.payload.usage : undefined
  return usage ? record(state, event, { ...head, usage }, items) : state
}

/** Records that the event was seen and, if it changed something, when. */
function record(state: ReducerState, event: StreamEvent, head: Head, items: Items): ReducerState {
  const seen = state.seen.add(event.event_id)
  // No effect, but recorded: a stray delta must stay stray when it is repeated after its item started.
  if (head === state.head && items === state.items) return { ...state, seen }
  const updatedAt = Math.max(state.updatedAt, event.timestamp)
  // Before `response_start`, a response is identified by its run and its first event.
  const named = head.id === '' && { id: event.run_id, created_at: event.timestamp }
  return { seen, head: named ? { ...head, ...named } : head, items, updatedAt }
}

function startResponse(head: Head, payload: StreamEventPayload<'response_start'>): Head {
  if (head.status !== 'queued') return head
  const { turn_id, thread_id, agent_id, model_id, provider_id, created_at } = payload
  const { history_truncated, history_given, replaces } = payload
  const ids = { id: payload.response_id, turn_id, thread_id, model_id, provider_id }
  const agent = agent_id === undefined ? undefined : { agent_id }
  const history = {
    ...(history_truncated !== undefined && { history_truncated }),
    ...(history_given !== undefined && { history_given }),
    ...(replaces !== undefined && { replaces }),
  }
  return { ...head, ...ids, ...agent, created_at, ...history, status: 'in_progress' }
}

/** Nearly all events are deltas, which need no normalization. */
function normalize({ items }: ReducerState, event: StreamEvent): StreamEvent {
  if (event.type === 'item_delta') return event
  return normalizeEvent(event, { started: (id) => startedOf(items, id) }) as StreamEvent
}

function updateUsage(head: Head, usage: Usage | undefined): Head {
  return usage === undefined ? head : { ...head, usage }
}

function abortResponse(head: Head, { usage }: StreamEventPayload<'turn_aborted_by_user'>): Head {
  return { ...updateUsage(head, usage), status: 'aborted' }
}

function failResponse(head: Head, { error, usage }: StreamEventPayload<'response_error'>): Head {
  return { ...updateUsage(head, usage), status: 'error', error }
}

function endResponse(head: Head, payload: StreamEventPayload<'response_done'>): Head {
  const { status, finish_reason = null, provider_finish_reason, usage } = payload
  const reason = provider_finish_reason === undefined ? undefined : { provider_finish_reason }
  return { ...head, status, finish_reason, ...reason, ...(usage && { usage }) }
}

/** Does not compile when one of our types is missing; types of later versions are ignored. */
function ignoreUnknown(state: ReducerState, _event: never): ReducerState {
  return state
}

/** Holds the reducer state of one turn for callers that do not need earlier states. */
export class ResponseReducer {
  #state: ReducerState = initialReducerState()
  #response: ReducedResponse | undefined

  apply(event: StreamEvent): this {
    const next = reduce(this.#state, event)
    if (next !== this.#state) this.#response = undefined
    this.#state = next
    return this
  }

  /** The Response so far; the same object until a new event is applied. */
  get response(): ReducedResponse {
    this.#response ??= toResponse(this.#state)
    return this.#response
  }
}
