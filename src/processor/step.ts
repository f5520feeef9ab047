/**
 * The rules of a turn. `step` takes what happened and answers what to do about it: it waits for
 * nothing and knows no time but `now`. The shell around it, `stream-processor.ts`, has no rules.
 */
import { TurnstreamError } from '../protocol/errors.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'
import type { TurnComplete, TurnError } from '../protocol/stream-output.ts'
import { cancelItem, failItem, finishItem, growItem, openItem, wouldShow } from './items.ts'
import { turnComplete, turnError } from './outputs.ts'
import { reportOnce } from './report.ts'
import { conclude, emit, NOTHING, ringTimer, showUnshown } from './showing.ts'
import { type Effect, type Emission, releaseItems, type TurnState } from './turn-state.ts'

/** What can happen to a turn: an event, time passing, a wish, and the fate of an emission. */
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
      return giveUp(turn, input.emission)
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
    default:
      return unknownType(turn, event)
  }
}

/** A newer source may know types that we do not: worth a word, not worth the turn. */
function unknownType(turn: TurnState, { type }: { type: string }): readonly Effect[] {
  return reportOnce(turn, 'EVENT_TYPE_UNKNOWN', type, type)
}

function start(
  turn: TurnState,
  { payload, timestamp }: Extract<StreamEvent, { type: 'response_start' }>,
): readonly Effect[] {
  if (turn.opening !== undefined) return NOTHING
  const { turnId, threadId } = turn.rules
  const { model_id: modelId, provider_id: providerId } = payload
  const emission: Emission = {
    kind: 'opening',
    output: { type: 'turn_started', turnId, threadId, modelId, providerId },
  }
  turn.providerId = providerId
  turn.startedAt = timestamp
  turn.opening = { emission, fate: 'queued' }
  return [emit(emission)]
}

type Terminal = Extract<
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

/** Vendors say only at the end of the response that its last text was cut by the token limit. */
function markCutText(turn: TurnState, { payload }: Terminal): readonly Effect[] {
  const { lastText } = turn
  if (payload.type !== 'response_done' || payload.finish_reason !== 'length') return NOTHING
  if (lastText === undefined || lastText.output.finishReason !== undefined) return NOTHING
  const output = { ...lastText.output, finishReason: 'length' }
  return [conclude(turn, 'final', lastText.buffer, output)]
}

function endingOutput(turn: TurnState, { payload, timestamp }: Terminal): TurnComplete | TurnError {
  const { usage } = payload
  const end = { usage, endedAt: timestamp }
  switch (payload.type) {
    case 'response_done': {
      const finishReason = payload.finish_reason
      const output = turnComplete(turn, payload.status, { ...end, finishReason })
      const pendingCalls = [...turn.pendingCalls.values()]
      return pendingCalls.length === 0 ? output : { ...output, pendingCalls }
    }
    case 'turn_aborted_by_user':
      return turnComplete(turn, 'aborted', { ...end, finishReason: 'cancelled' })
    case 'response_error':
      return turnError(turn, payload.error, { ...end, finishReason: 'error' })
  }
}

/** Until now the call could still have come. */
function reportOrphans(turn: TurnState): Effect[] {
  return [...turn.waitingOutputs.values()].map(({ id, call_id }) => ({
    do: 'report',
    error: new TurnstreamError('TOOL_OUTPUT_ORPHANED', `${id} answers the unknown call ${call_id}`),
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
  switch (emission.kind) {
    case 'opening':
      if (turn.opening) turn.opening.fate = 'accepted'
      return NOTHING
    case 'ending':
      if (turn.ending) turn.ending.fate = 'accepted'
      releaseItems(turn)
      return NOTHING
    case 'growth':
      emission.buffer.markEmitted(emission.content.length)
      emission.buffer.markCreateEmitted()
      return NOTHING
    case 'final':
    case 'cancellation':
      emission.buffer.markCreateEmitted()
      return NOTHING
  }
}

/** Nothing counts as shown that was not accepted: it stays due until a later emission carries it. */
function giveUp(turn: TurnState, emission: Emission): readonly Effect[] {
  switch (emission.kind) {
    case 'opening':
      if (turn.opening) turn.opening.fate = 'lost'
      return NOTHING
    case 'ending':
      if (turn.ending) turn.ending.fate = 'lost'
      return NOTHING
    case 'growth':
      emission.buffer.withdrawOffer(emission.content.length)
      return NOTHING
    case 'final':
    case 'cancellation':
      // An older word that fails after a newer one was decided has nothing left to say.
      if (emission.revision === emission.buffer.revision) {
        turn.unsent.set(emission.buffer.itemId, emission)
      }
      return NOTHING
  }
}

/**
 * What must be tried before `emission` may be, because an earlier attempt was given up since it was
 * decided: the turn's opening comes first, and its ending comes after everything else.
 */
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

/** At most how many emissions an event would cause: known before anything is changed. */
export function emissionsOf(turn: TurnState, event: StreamEvent): number {
  switch (event.type) {
    case 'item_delta':
      return Number(wouldShow(turn, event.payload.item_id, event.payload.delta_content.length))
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
