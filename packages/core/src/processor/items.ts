import { isExecutedByProvider } from '../items/marks.ts'
import { type ErrorCode, TurnstreamError } from '../protocol/errors.ts'
import { isPromptItem } from '../protocol/item-ids.ts'
import type { FunctionCall, OutputItem } from '../protocol/output-item.ts'
import type {
  AnsweredCall,
  ErrorObject,
  ItemType,
  StreamEventPayload,
} from '../protocol/stream-event.ts'
import type { StartedItem } from '../protocol/stream-event-guard.ts'
import type { ContentType, ItemSnapshot } from '../protocol/stream-output.ts'
import { ContentBuffer } from './content-buffer.ts'
import {
  type ApprovalRequestItem,
  type ApprovalResponseItem,
  approvalOf,
  completedCall,
  completedText,
  failedItem,
  snapshot,
} from './outputs.ts'
import type { Effect, Emission, ToolOutputItem, TurnState } from './step.ts'

/** The life cycle of an item: opened, grown, and ended in one of three ways. */

const CONTENT_TYPES: Record<'message' | 'reasoning' | 'function_call', ContentType> = {
  message: 'message',
  reasoning: 'thinking',
  function_call: 'tool_call',
}

export function openItem(
  turn: TurnState,
  payload: StreamEventPayload<'item_start'>,
  now: number,
): readonly Effect[] {
  const { item_id: itemId, item_type: itemType } = payload
  if (itemType === 'function_call_output' || itemType === 'error') {
    turn.ignored.apply(payload)
    return NOTHING
  }
  if (turn.items.has(itemId) || turn.finished.has(itemId)) {
    return reportOnce(turn, 'STREAM_SEQUENCE_ERROR', itemId, `${itemId} was started twice`)
  }
  const buffer = newBuffer(turn, payload, CONTENT_TYPES[itemType])
  turn.items.set(itemId, buffer)
  if (buffer.isHeld()) return NOTHING
  if (itemType === 'function_call') return [showGrowth(turn, buffer)]
  if (!buffer.hasUnshownContent()) return NOTHING
  buffer.touch(now)
  return wakeFor(turn, buffer)
}

const ITEM_TYPES: Record<ContentType, ItemType> = {
  message: 'message',
  thinking: 'reasoning',
  tool_call: 'function_call',
}

/** Returns what was said of an open item. */
export function startedOf(turn: TurnState, itemId: string): StartedItem | undefined {
  const buffer = turn.items.get(itemId)
  if (buffer === undefined) return turn.ignored.soFar(itemId)
  const type = ITEM_TYPES[buffer.contentType]
  const text = buffer.getContent()
  if (type !== 'function_call') return { type, content: text, origin: buffer.origin }
  return { type, name: buffer.toolName, call_id: buffer.callId, arguments: text }
}

function newBuffer(
  turn: TurnState,
  payload: Partial<StreamEventPayload<'item_start'>> & { item_id: string },
  contentType: ContentType,
): ContentBuffer {
  const { item_id: itemId, initial_content, name: toolName, call_id: callId } = payload
  const isCall = contentType === 'tool_call'
  const isUser = payload.origin === 'user' || (contentType === 'message' && isPromptItem(itemId))
  const buffer = new ContentBuffer(itemId, contentType, {
    initialContent: isCall ? (payload.arguments ?? initial_content) : initial_content,
    origin: isUser ? 'user' : payload.origin,
    providerId: turn.providerId,
    toolName,
    callId,
    isHeld: isCall ? !turn.rules.showToolArguments || !toolName : isUser,
    estimateTokens: turn.rules.estimateTokens,
  })
  buffer.threshold = turn.rules.gradient.threshold(0)
  return buffer
}

/** The token path: one append, one comparison, and a timer for the first pending delta. */
export function growItem(
  turn: TurnState,
  payload: StreamEventPayload<'item_delta'>,
  now: number,
): readonly Effect[] {
  const buffer = turn.items.get(payload.item_id)
  if (buffer === undefined || buffer.isComplete()) {
    turn.ignored.apply(payload)
    return stray(turn, payload.item_id)
  }
  if (payload.delta_content === '') return NOTHING
  buffer.appendContent(payload.delta_content)
  if (buffer.isHeld()) return NOTHING
  buffer.touch(now)
  return isPastThreshold(buffer, buffer.getTokenCount())
    ? [showGrowth(turn, buffer)]
    : wakeFor(turn, buffer)
}

/** Returns whether a delta of this length would make `growItem` emit a snapshot. */
export function wouldShow(turn: TurnState, itemId: string, deltaLength: number): boolean {
  const buffer = turn.items.get(itemId)
  if (buffer === undefined || buffer.isComplete() || buffer.isHeld() || deltaLength === 0)
    return false
  const length = buffer.getContentLength() + deltaLength
  return isPastThreshold(buffer, turn.rules.estimateTokens(length))
}

export function finishItem(
  turn: TurnState,
  payload: StreamEventPayload<'item_done'>,
): readonly Effect[] {
  const { item_id: itemId, final_item: item, finish_reason: reason, answers } = payload
  if (turn.finished.has(itemId) || turn.items.get(itemId)?.isComplete() === true) {
    return stray(turn, itemId)
  }
  turn.lastText = undefined
  switch (item.type) {
    case 'message':
    case 'reasoning': {
      const buffer = bufferFor(turn, itemId, item.type)
      const output = completedText(turn.rules, buffer, item, reason)
      const effects = endItem(turn, buffer, output)
      if (item.origin !== 'user') turn.lastText = { buffer, output }
      return effects
    }
    case 'function_call':
      return registerCall(turn, bufferFor(turn, itemId, item.type), item)
    case 'function_call_output':
      turn.ignored.delete(itemId)
      turn.finished.add(itemId)
      return answers === undefined
        ? answerCall(turn, item)
        : completeEarlierCall(turn, item, answers)
    case 'approval_request':
      turn.finished.add(itemId)
      return requestApproval(turn, item)
    case 'approval_response':
      turn.finished.add(itemId)
      return showApproval(turn, item)
    case 'error':
      return showErrorItem(turn, itemId, item)
    case 'cancelled':
      return cancelItem(turn, itemId, item.reason)
    default:
      turn.finished.add(itemId)
      return NOTHING
  }
}

/** An item that was never started, or was started with another type, still gets one final snapshot. */
function bufferFor(
  turn: TurnState,
  itemId: string,
  itemType: keyof typeof CONTENT_TYPES,
): ContentBuffer {
  const contentType = CONTENT_TYPES[itemType]
  const open = turn.items.get(itemId)
  return open?.contentType === contentType
    ? open
    : newBuffer(turn, { item_id: itemId }, contentType)
}

function showErrorItem(
  turn: TurnState,
  itemId: string,
  { code, message }: Extract<OutputItem, { type: 'error' }>,
): readonly Effect[] {
  turn.ignored.delete(itemId)
  const open = turn.items.get(itemId)
  if (open !== undefined) return failItem(turn, itemId, { code, message })
  const buffer = new ContentBuffer(itemId, 'message', { origin: 'system' })
  return endItem(turn, buffer, failedItem(turn.rules, buffer, code, message))
}

export function failItem(turn: TurnState, itemId: string, error: ErrorObject): readonly Effect[] {
  const buffer = turn.items.get(itemId)
  if (buffer === undefined) return stray(turn, itemId)
  return endItem(turn, buffer, failedItem(turn.rules, buffer, error.code, error.message))
}

/** A reader that has seen the item must learn that nothing follows; others need not. */
export function cancelItem(
  turn: TurnState,
  itemId: string,
  reason = 'the item was cancelled',
): readonly Effect[] {
  const buffer = turn.items.get(itemId)
  if (buffer === undefined) return stray(turn, itemId)
  if (!buffer.wasOffered()) {
    forget(turn, buffer)
    return restTimer(turn)
  }
  const output = failedItem(turn.rules, buffer, 'ITEM_CANCELLED', reason)
  return endItem(turn, buffer, output, 'cancellation')
}

function endItem(
  turn: TurnState,
  buffer: ContentBuffer,
  output: ItemSnapshot,
  kind: 'final' | 'cancellation' = 'final',
): readonly Effect[] {
  forget(turn, buffer)
  return [conclude(turn, kind, buffer, output), ...restTimer(turn)]
}

function forget(turn: TurnState, buffer: ContentBuffer): void {
  buffer.markComplete()
  turn.lastText = undefined
  turn.items.delete(buffer.itemId)
  turn.finished.add(buffer.itemId)
  turn.calls.delete(buffer.itemId)
}

function stray(turn: TurnState, itemId: string): readonly Effect[] {
  if (turn.ignored.find(itemId) !== undefined) return NOTHING
  return reportOnce(turn, 'ITEM_UNKNOWN', itemId, `${itemId} is not open`)
}

/** Emits a complete call, and keeps it until its output arrives: for the reader the two are one item. */
function registerCall(turn: TurnState, call: ContentBuffer, item: FunctionCall): readonly Effect[] {
  call.finishCall(item.name, item.call_id, item.arguments)
  call.approval = item.approval
  call.isForClient = !isExecutedByProvider(item.provider_metadata)
  turn.items.set(call.itemId, call)
  const output = turn.calls.add(call.itemId, item.call_id, call)
  const created = conclude(turn, 'final', call, snapshot(turn.rules, call, 'create'))
  const effects = [created, ...restTimer(turn)]
  return output === undefined ? effects : [...effects, completeCall(turn, call, output)]
}

function answerCall(turn: TurnState, item: ToolOutputItem): readonly Effect[] {
  const call = turn.calls.answer(item.call_id, item)
  return call === undefined ? NOTHING : [completeCall(turn, call, item)]
}

function completeCall(turn: TurnState, call: ContentBuffer, item: ToolOutputItem): Effect {
  turn.items.delete(call.itemId)
  turn.finished.add(call.itemId)
  return conclude(turn, 'final', call, completedCall(turn.rules, call, item))
}

/** Completes a call of an earlier turn. Its first snapshot is in that turn. */
function completeEarlierCall(
  turn: TurnState,
  item: ToolOutputItem,
  { item_id: itemId, name, arguments: text }: AnsweredCall,
): readonly Effect[] {
  const call = new ContentBuffer(itemId, 'tool_call')
  call.finishCall(name, item.call_id, text)
  return [conclude(turn, 'final', call, completedCall(turn.rules, call, item))]
}

/** Emits a call of its provider again: it waits for approval. */
function requestApproval(turn: TurnState, item: ApprovalRequestItem): readonly Effect[] {
  const call = turn.calls.withId(item.call_id).find(({ approval }) => approval === undefined)
  if (call === undefined) return NOTHING
  call.approval = { id: item.approval_id, status: 'requested' }
  return [conclude(turn, 'final', call, snapshot(turn.rules, call, 'update'))]
}

function showApproval(turn: TurnState, item: ApprovalResponseItem): readonly Effect[] {
  for (const call of turn.calls.withId(item.call_id)) {
    if (call.approval?.id !== item.approval_id) continue
    call.approval = approvalOf(item)
    return [conclude(turn, 'final', call, snapshot(turn.rules, call, 'update'))]
  }
  return NOTHING
}

export const NOTHING: readonly Effect[] = []

export function emit(emission: Emission): Effect {
  return { do: 'emit', emission }
}

/** Offers the complete text of an item and advances its position in the gradient. */
function showGrowth(turn: TurnState, buffer: ContentBuffer): Effect {
  const { gradient, minGrowth } = turn.rules
  const tokens = buffer.getTokenCount()
  if (isPastThreshold(buffer, tokens)) {
    do {
      buffer.advanceBatchIndex()
      buffer.threshold = gradient.threshold(buffer.getBatchIndex())
    } while (isPastThreshold(buffer, tokens))
    buffer.threshold = Math.max(buffer.threshold, tokens * (1 + minGrowth))
  }
  return emit({ kind: 'growth', buffer, content: buffer.offer() })
}

/** Exactly at the threshold is not past it. NaN and Infinity are never past it. */
function isPastThreshold(buffer: ContentBuffer, tokens: number): boolean {
  return tokens > buffer.threshold && tokens !== Infinity
}

/** Emits the final snapshot of an item, replacing earlier ones that were not delivered. */
export function conclude(
  turn: TurnState,
  kind: 'final' | 'cancellation',
  buffer: ContentBuffer,
  output: ItemSnapshot,
): Effect {
  buffer.revision += 1
  turn.unsent.delete(buffer.itemId)
  return emit({ kind, buffer, revision: buffer.revision, output })
}

/** Sets the timer when this item is due before everything else. */
function wakeFor(turn: TurnState, buffer: ContentBuffer): readonly Effect[] {
  const deadline = deadlineOf(turn, buffer)
  if (deadline >= turn.wakeAt) return NOTHING
  turn.wakeAt = deadline
  return [{ do: 'wake', at: deadline }]
}

function deadlineOf(turn: TurnState, buffer: ContentBuffer): number {
  return buffer.deadline(turn.rules.batchTimeoutMs, turn.rules.maxLatencyMs)
}

/** Emits what is due and sets the timer for the rest. */
export function ringTimer(turn: TurnState, now: number): readonly Effect[] {
  if (turn.ending !== undefined) return NOTHING
  const effects: Effect[] = []
  turn.wakeAt = Infinity
  for (const buffer of turn.items.values()) {
    const deadline = deadlineOf(turn, buffer)
    if (deadline <= now) effects.push(showGrowth(turn, buffer))
    else turn.wakeAt = Math.min(turn.wakeAt, deadline)
  }
  if (turn.wakeAt !== Infinity) effects.push({ do: 'wake', at: turn.wakeAt })
  return effects
}

/** Stops the timer when nothing is pending. */
function restTimer(turn: TurnState): readonly Effect[] {
  if (turn.wakeAt === Infinity) return NOTHING
  for (const buffer of turn.items.values()) {
    if (deadlineOf(turn, buffer) !== Infinity) return NOTHING
  }
  turn.wakeAt = Infinity
  return [{ do: 'sleep' }]
}

/** Emits what the sink has not accepted: undelivered final snapshots, and the text of open items. */
export function showUnshown(turn: TurnState): Effect[] {
  const effects = [...turn.unsent.values()].map(emit)
  turn.unsent.clear()
  for (const buffer of turn.items.values()) {
    if (!buffer.isHeld() && buffer.hasUnshownContent()) effects.push(showGrowth(turn, buffer))
  }
  return effects
}

// Ids come from outside. Past this many distinct ones the stream is broken, and remembering more would let it
// fill the memory.
const MAX_REPORTS = 1000

/** Reports each code and subject once. */
export function reportOnce(
  turn: TurnState,
  code: ErrorCode,
  subject: string,
  detail: string,
): readonly Effect[] {
  const key = `${code} ${subject}`
  if (turn.reported.has(key) || turn.reported.size >= MAX_REPORTS) return []
  turn.reported.add(key)
  return [{ do: 'report', error: new TurnstreamError(code, detail) }]
}
