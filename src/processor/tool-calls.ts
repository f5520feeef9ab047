/** A call and its output are two items of the provider and one of the reader. */

import { isExecutedByProvider } from '../protocol/item-marks.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { ContentBuffer } from './content-buffer.ts'
import { completedCall, snapshot } from './outputs.ts'
import { conclude } from './showing.ts'
import type { Effect, ToolOutputItem, TurnState } from './turn-state.ts'

/** The call is whole: show it, and keep it until its output comes, or came before it. */
export function registerCall(
  turn: TurnState,
  call: ContentBuffer,
  item: Extract<OutputItem, { type: 'function_call' }>,
): readonly Effect[] {
  call.finishCall(item.name, item.call_id, item.arguments)
  turn.items.set(call.itemId, call)
  addCall(turn, item.call_id, call)
  if (!isExecutedByProvider(item.provider_metadata)) {
    const { itemId } = call
    turn.pendingCalls.set(itemId, { callId: item.call_id, itemId, toolName: item.name })
  }
  const created = conclude(
    turn,
    'final',
    call,
    snapshot(turn.rules, call, 'create', call.getContent()),
  )
  const output = turn.waitingOutputs.get(item.call_id)
  if (output === undefined) return [created]
  turn.waitingOutputs.delete(item.call_id)
  return [created, ...completeCall(turn, output)]
}

export function completeCall(turn: TurnState, item: ToolOutputItem): readonly Effect[] {
  // Some vendors use an id twice: outputs come in the order of the calls.
  const call = turn.calls.get(item.call_id)?.[0]
  if (call === undefined) {
    turn.waitingOutputs.set(item.call_id, item)
    return []
  }
  removeCall(turn, item.call_id, call)
  turn.items.delete(call.itemId)
  turn.pendingCalls.delete(call.itemId)
  turn.finished.add(call.itemId)
  return [conclude(turn, 'final', call, completedCall(turn.rules, call, item))]
}

function addCall(turn: TurnState, callId: string, call: ContentBuffer): void {
  turn.calls.set(callId, [...(turn.calls.get(callId) ?? []), call])
}

export function removeCall(turn: TurnState, callId: string, call: ContentBuffer): void {
  const others = turn.calls.get(callId)?.filter((other) => other !== call) ?? []
  if (others.length > 0) turn.calls.set(callId, others)
  else turn.calls.delete(callId)
}
