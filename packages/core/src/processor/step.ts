import { OpenItems } from '../items/open-items.ts'
import { UnansweredCalls } from '../items/unanswered-calls.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { StreamEvent, Usage } from '../protocol/stream-event.ts'
import type {
  ItemSnapshot,
  StreamMessage,
  TurnComplete,
  TurnError,
  TurnStarted,
} from '../protocol/stream-output.ts'
import type { ContentBuffer } from './content-buffer.ts'
import {
  cancelItem,
  conclude,
  emit,
  failItem,
  finishItem,
  growItem,
  NOTHING,
  openItem,
  reportOnce,
  ringTimer,
  showUnshown,
  wouldShow,
} from './items.ts'
import { BatchGradient, type ResolvedOptions } from './options.ts'
import { endingOutput } from './outputs.ts'

/**
 * The rules of a turn. `step` takes an input and returns the effects to perform. It never waits and knows no
 * time but `now`. The shell, `stream-processor.ts`, has no rules.
 */

/** Inputs: an event, the timer, a request by the caller, or the result of an emission. */
export type StepInput =
  | StreamEvent
  | { type: 'timer' }
  | { type: 'flush' }
  | { type: 'emitted'; emission: Emission }
  | { type: 'emit_failed'; emission: Emission }

export function step(turn: TurnState, input: StepInput, now: number): readonly Effect[] {
  switch (input.type) {
    case 'item_delta':
      return turn.ending === undefined ? growItem(turn, input.payload, now) : NOTHING
    case 'timer':
      return ringTimer(turn, now)
    case 'flush':
      return flush(turn)
    case 'emitted':
      return accept(turn, input.emission)
    case 'emit_failed':
      return withdraw(turn, input.emission)
    default:
      return turn.ending === undefined ? stepEvent(turn, input, now) : NOTHING
  }
}

type RareEvent = Exclude<StreamEvent, { type: 'item_delta' }>

function stepEvent(turn: TurnState, event: RareEvent, now: number): readonly Effect[] {
  switch (event.type) {
    case 'item_start':
      return openItem(turn, event.payload, now)
    case 'item_done':
      return finishItem(turn, event.payload)
    case 'item_error':
      return failItem(turn, event.payload.item_id, event.payload.error)
    case 'item_cancelled':
      return cancelItem(turn, event.payload.item_id, event.payload.reason)
    case 'response_start':
      return start(turn, event)
    case 'usage_update':
      turn.usage = event.payload.usage ?? turn.usage
      return NOTHING
    case 'heartbeat':
      return NOTHING
    case 'response_done':
    case 'response_error':
    case 'turn_aborted_by_user':
      return end(turn, event)
    default: {
      // A newer source may send types that we do not know: reported, but not fatal.
      const { type } = event satisfies never as { type: string }
      return reportOnce(turn, 'EVENT_TYPE_UNKNOWN', type, type)
    }
  }
}

function start(
  turn: TurnState,
  { payload, timestamp }: Extract<StreamEvent, { type: 'response_start' }>,
): readonly Effect[] {
  if (turn.opening !== undefined) return NOTHING
  const { turnId, threadId } = turn.rules
  const { model_id: modelId, provider_id: providerId, replaces } = payload
  const replaced = replaces === undefined ? undefined : { replaces }
  const emission: Emission = {
    kind: 'opening',
    output: { type: 'turn_started', turnId, threadId, modelId, providerId, ...replaced },
  }
  turn.providerId = providerId
  turn.startedAt = timestamp
  turn.opening = { emission, fate: 'queued' }
  return [emit(emission)]
}

export type Terminal = Extract<
  StreamEvent,
  { type: 'response_done' | 'response_error' | 'turn_aborted_by_user' }
>

function end(turn: TurnState, event: Terminal): readonly Effect[] {
  const emission: Emission = { kind: 'ending', output: endingOutput(turn, event) }
  const cut = markCutText(turn, event)
  turn.ending = { emission, fate: 'queued' }
  turn.wakeAt = Infinity
  return [{ do: 'sleep' }, ...reportOrphans(turn), ...cut, ...showUnshown(turn), emit(emission)]
}

/** Vendors report only at the end of the response that the token limit cut its last text. */
function markCutText(turn: TurnState, { payload }: Terminal): readonly Effect[] {
  const { lastText } = turn
  if (payload.type !== 'response_done' || payload.finish_reason !== 'length') return NOTHING
  if (lastText === undefined || lastText.output.finishReason !== undefined) return NOTHING
  const output = { ...lastText.output, finishReason: 'length' }
  return [conclude(turn, 'final', lastText.buffer, output)]
}

/** Only now is it certain that the call will not follow. */
function reportOrphans(turn: TurnState): Effect[] {
  return turn.calls.earlyOutputs.map(({ id, call_id }) => ({
    do: 'report',
    error: new TurnstreamError('TOOL_OUTPUT_ORPHANED', `${id} answers unknown call ${call_id}`),
  }))
}

function flush(turn: TurnState): readonly Effect[] {
  const { opening, ending } = turn
  const effects = showUnshown(turn)
  if (opening?.fate === 'lost') effects.unshift(emit(opening.emission))
  if (ending?.fate === 'lost') effects.push(emit(ending.emission))
  return effects
}

function accept(turn: TurnState, emission: Emission): readonly Effect[] {
  if (emission.kind === 'opening' || emission.kind === 'ending') {
    const milestone = turn[emission.kind]
    if (milestone) milestone.fate = 'accepted'
    if (emission.kind === 'ending') releaseItems(turn)
    return NOTHING
  }
  if (emission.kind === 'growth') emission.buffer.markEmitted(emission.content.length)
  emission.buffer.markCreateEmitted()
  return NOTHING
}

/** Content that was not accepted stays pending until a later emission carries it. */
function withdraw(turn: TurnState, emission: Emission): readonly Effect[] {
  if (emission.kind === 'opening' || emission.kind === 'ending') {
    const milestone = turn[emission.kind]
    if (milestone) milestone.fate = 'lost'
  } else if (emission.kind === 'growth') {
    emission.buffer.withdrawOffer(emission.content.length)
  } else if (emission.revision === emission.buffer.revision) {
    // Older revisions are not worth retrying.
    turn.unsent.set(emission.buffer.itemId, emission)
  }
  return NOTHING
}

/** Returns failed emissions to retry before this one: the start of the turn comes first, its end comes last. */
export function prerequisites(turn: TurnState, emission: Emission): readonly Emission[] {
  const needed: Emission[] = []
  if (turn.opening?.fate === 'lost' && emission.kind !== 'opening') {
    needed.push(turn.opening.emission)
  }
  if (emission.kind === 'ending') {
    for (const effect of showUnshown(turn)) if (effect.do === 'emit') needed.push(effect.emission)
  }
  return needed
}

/** Returns an upper bound of the emissions an event would cause, before anything changes. */
export function emissionsOf(turn: TurnState, event: StreamEvent): number {
  switch (event.type) {
    case 'item_delta':
      return Number(wouldShow(turn, event.payload.item_id, event.payload.delta_content.length))
    case 'item_start':
      return Number(turn.rules.showToolArguments && event.payload.item_type === 'function_call')
    case 'response_start':
    case 'item_error':
    case 'item_cancelled':
      return 1
    case 'item_done':
      return event.payload.final_item.type === 'function_call' ? 2 : 1
    case 'response_done':
    case 'response_error':
    case 'turn_aborted_by_user':
      return turn.unsent.size + turn.items.size + 2
    default:
      return 0
  }
}

export type ToolOutputItem = Extract<OutputItem, { type: 'function_call_output' }>

export interface TurnRules extends ResolvedOptions {
  readonly gradient: BatchGradient
  /** How much a text must grow between two snapshots, as a part of its length, besides the gradient. */
  readonly minGrowth: number
}

/**
 * A decision to emit something. The content is fixed when it is decided, except for what depends on earlier
 * emissions: whether a growing item is new to the sink, and whether a cancelled item was ever seen.
 */
export type Emission = (
  | { kind: 'opening'; output: TurnStarted }
  | { kind: 'growth'; buffer: ContentBuffer; content: string }
  | {
      kind: 'final' | 'cancellation'
      buffer: ContentBuffer
      revision: number
      output: ItemSnapshot
    }
  | { kind: 'ending'; output: TurnComplete | TurnError }
) & {
  /** Created at the first attempt, so that every retry has the same `eventId`. */
  message?: StreamMessage
}

export type Effect =
  | { do: 'emit'; emission: Emission }
  | { do: 'wake'; at: number }
  | { do: 'sleep' }
  | { do: 'report'; error: TurnstreamError }

/** One of the two turn events: sent once, remembered until it is accepted. */
interface Milestone {
  emission: Emission
  fate: 'queued' | 'accepted' | 'lost'
}

/** The state of one turn. Only `step` changes it. */
export interface TurnState {
  readonly rules: TurnRules
  opening: Milestone | undefined
  ending: Milestone | undefined
  providerId: string
  usage: Usage | undefined
  /** Timestamp of `response_start`. */
  startedAt: number | undefined
  /** The last item to end, if it was a text: the one that the token limit cuts. */
  lastText: { readonly buffer: ContentBuffer; readonly output: ItemSnapshot } | undefined
  /** Items that may still change: open ones, and tool calls without an output. */
  readonly items: Map<string, ContentBuffer>
  /** The latter. */
  readonly calls: UnansweredCalls<ContentBuffer, ToolOutputItem>
  /** Open items of which nothing is emitted before their end: tool outputs and errors. */
  readonly ignored: OpenItems
  readonly finished: Set<string>
  /** Undelivered final snapshots by item. */
  readonly unsent: Map<string, Emission>
  /** When the timer is due; Infinity when it is not set. */
  wakeAt: number
  readonly reported: Set<string>
}

export function createTurnState(options: ResolvedOptions, minGrowth = 0): TurnState {
  return {
    rules: { ...options, gradient: new BatchGradient(options.batchGradient), minGrowth },
    opening: undefined,
    ending: undefined,
    providerId: '',
    usage: undefined,
    startedAt: undefined,
    lastText: undefined,
    items: new Map(),
    calls: new UnansweredCalls(),
    ignored: new OpenItems(),
    finished: new Set(),
    unsent: new Map(),
    wakeAt: Infinity,
    reported: new Set(),
  }
}

export function releaseItems(turn: TurnState): void {
  const { items, calls, ignored, finished, unsent, reported } = turn
  for (const each of [items, calls, ignored, finished, unsent, reported]) each.clear()
  turn.lastText = undefined
}
