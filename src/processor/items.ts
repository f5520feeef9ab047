/** The life of an item: opened, grown, and ended in one of three ways. */
import { unreachable } from '../protocol/errors.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { ErrorObject, ItemType, StreamEventPayload } from '../protocol/stream-event.ts'
import type { ContentType, ItemSnapshot } from '../protocol/stream-output.ts'
import { ContentBuffer } from './content-buffer.ts'
import { completedText, snapshot, withError } from './outputs.ts'
import { reportOnce } from './report.ts'
import { conclude, isPastThreshold, NOTHING, restTimer, showGrowth, wakeFor } from './showing.ts'
import { completeCall, registerCall, removeCall } from './tool-calls.ts'
import type { Effect, TurnState } from './turn-state.ts'

// Adapters may open the user's own message with the wrong origin and correct it only at its end;
// this part of its id tells it apart from the start.
const USER_PROMPT_ID = 'user-prompt'

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
    turn.ignored.set(itemId, itemType)
    return NOTHING
  }
  if (turn.items.has(itemId) || turn.finished.has(itemId)) {
    return reportOnce(turn, 'STREAM_SEQUENCE_ERROR', itemId, `${itemId} was started twice`)
  }
  const buffer = newBuffer(turn, payload, CONTENT_TYPES[itemType])
  turn.items.set(itemId, buffer)
  if (buffer.isHeld() || !buffer.hasUnshownContent()) return NOTHING
  buffer.touch(now)
  return wakeFor(turn, buffer)
}

const ITEM_TYPES: Record<ContentType, ItemType> = {
  message: 'message',
  thinking: 'reasoning',
  tool_call: 'function_call',
}

/** What an open item was started as. */
export function startedType(turn: TurnState, itemId: string): ItemType | undefined {
  const buffer = turn.items.get(itemId)
  return buffer === undefined ? turn.ignored.get(itemId) : ITEM_TYPES[buffer.contentType]
}

function newBuffer(
  turn: TurnState,
  payload: Partial<StreamEventPayload<'item_start'>> & { item_id: string },
  contentType: ContentType,
): ContentBuffer {
  const { item_id: itemId, initial_content, origin, name, call_id } = payload
  const initialContent =
    contentType === 'tool_call' ? (payload.arguments ?? initial_content) : initial_content
  const isUser = origin === 'user' || (contentType === 'message' && itemId.includes(USER_PROMPT_ID))
  const buffer = new ContentBuffer(itemId, contentType, {
    providerId: turn.providerId,
    isHeld: contentType === 'tool_call' || isUser,
    estimateTokens: turn.rules.estimateTokens,
    ...(initialContent !== undefined && { initialContent }),
    ...(isUser ? { origin: 'user' } : origin !== undefined && { origin }),
    ...(name !== undefined && { toolName: name }),
    ...(call_id !== undefined && { callId: call_id }),
  })
  buffer.threshold = turn.rules.gradient.threshold(0)
  return buffer
}

/** The token path: an append, a comparison, and for the first unshown delta a timer. */
export function growItem(
  turn: TurnState,
  payload: StreamEventPayload<'item_delta'>,
  now: number,
): readonly Effect[] {
  const buffer = turn.items.get(payload.item_id)
  if (buffer === undefined || buffer.isComplete()) return stray(turn, payload.item_id)
  if (payload.delta_content === '') return NOTHING
  buffer.appendContent(payload.delta_content)
  if (buffer.isHeld()) return NOTHING
  buffer.touch(now)
  return isPastThreshold(buffer, buffer.getTokenCount())
    ? [showGrowth(turn, buffer)]
    : wakeFor(turn, buffer)
}

/** Whether a delta of this length would make `growItem` show something. */
export function wouldShow(turn: TurnState, itemId: string, deltaLength: number): boolean {
  const buffer = turn.items.get(itemId)
  if (buffer === undefined || buffer.isComplete() || buffer.isHeld() || deltaLength === 0)
    return false
  const length = buffer.getContentLength() + deltaLength
  return isPastThreshold(buffer, turn.rules.estimateTokens(length))
}

export function finishItem(
  turn: TurnState,
  { item_id: itemId, final_item: item, finish_reason: reason }: StreamEventPayload<'item_done'>,
): readonly Effect[] {
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
      return completeCall(turn, item)
    case 'error':
      return showErrorItem(turn, itemId, item)
    case 'cancelled':
      return cancelItem(turn, itemId, item.reason)
    default:
      return unreachable(item)
  }
}

/** An item that was never started, or was started as something else, still gets its one last snapshot. */
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
  return endItem(turn, buffer, withError(snapshot(turn.rules, buffer, 'error', ''), code, message))
}

export function failItem(turn: TurnState, itemId: string, error: ErrorObject): readonly Effect[] {
  const buffer = turn.items.get(itemId)
  if (buffer === undefined) return stray(turn, itemId)
  const content = snapshot(turn.rules, buffer, 'error', buffer.getContent())
  return endItem(turn, buffer, withError(content, error.code, error.message))
}

/** A reader who has seen the item must be told that nothing follows; one who has not, need not. */
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
  const content = snapshot(turn.rules, buffer, 'error', buffer.getContent())
  const output = withError(content, 'ITEM_CANCELLED', reason)
  forget(turn, buffer)
  return [conclude(turn, 'cancellation', buffer, output), ...restTimer(turn)]
}

function endItem(turn: TurnState, buffer: ContentBuffer, output: ItemSnapshot): readonly Effect[] {
  forget(turn, buffer)
  return [conclude(turn, 'final', buffer, output), ...restTimer(turn)]
}

function forget(turn: TurnState, buffer: ContentBuffer): void {
  buffer.markComplete()
  turn.lastText = undefined
  turn.pendingCalls.delete(buffer.itemId)
  turn.items.delete(buffer.itemId)
  turn.finished.add(buffer.itemId)
  if (buffer.callId !== undefined) removeCall(turn, buffer.callId, buffer)
}

function stray(turn: TurnState, itemId: string): readonly Effect[] {
  if (turn.ignored.has(itemId)) return NOTHING
  return reportOnce(turn, 'ITEM_UNKNOWN', itemId, `${itemId} is not open`)
}
