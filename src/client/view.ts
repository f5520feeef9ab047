import { type AppendFrame, applyAppend } from '../protocol/append-frame.ts'
import type { TurnStatus } from '../protocol/stream-event.ts'
import type {
  ItemSnapshot,
  StreamOutput,
  ToolCall,
  TurnComplete,
  TurnError,
  TurnEvent,
  TurnStarted,
} from '../protocol/stream-output.ts'

/** A turn, ready to render. */
export interface TurnView {
  readonly turnId: string
  readonly threadId: string
  readonly status: 'running' | TurnStatus
  /** The newest snapshot of each item, in order of first appearance. */
  readonly items: readonly ItemSnapshot[]
  readonly started?: TurnStarted
  readonly end?: TurnComplete | TurnError
}

/** The turns of a thread, oldest first, or one turn. */
export interface View {
  readonly turns: readonly TurnView[]
}

export const EMPTY_VIEW: View = { turns: [] }

/**
 * Applies an output to a view and returns the new view. What did not change keeps its identity, so memoised
 * components do not render again. Applying an output twice, or after a newer one, changes nothing.
 *
 * A turn that replaces others takes their place. A tool call belongs to the first turn that has it: when the client's
 * output arrives in a later turn, the call is completed in its place.
 *
 * @example
 * let view = EMPTY_VIEW
 * source.onmessage = ({ data }) => render((view = apply(view, JSON.parse(data))))
 */
export function apply(view: View, output: StreamOutput): View {
  const at = indexOfTurn(view, output.turnId)
  const turn = view.turns[at] ?? emptyTurn(output)
  if (!('itemId' in output)) {
    return dropReplaced(putTurn(view, at, applyTurnEvent(turn, output)), output)
  }
  if (output.type === 'tool_call' && indexOfItem(turn, output.itemId) < 0) {
    const merged = mergeCall(view, at, turn, output)
    if (merged !== undefined) return merged
  }
  return putTurn(view, at, applyItem(turn, output))
}

/**
 * Applies an append frame to a view. Returns undefined when the frame does not continue the item: then reconnect
 * without a cursor and start with an empty view.
 */
export function append(view: View, frame: AppendFrame): View | undefined {
  const at = view.turns.findLastIndex((turn) => indexOfItem(turn, frame.itemId) >= 0)
  const turn = view.turns[at]
  const item = turn?.items.find(({ itemId }) => itemId === frame.itemId)
  const grown = item && applyAppend(item, frame)
  return turn && grown && putTurn(view, at, putItem(turn, grown))
}

/** Puts the turns of an earlier page before those of a view. */
export function prepend(view: View, older: View): View {
  let merged = older
  for (const turn of view.turns) {
    const { started, items, end } = turn
    for (const output of [started, ...items, end]) if (output) merged = apply(merged, output)
    const at = indexOfTurn(merged, turn.turnId)
    // Without merged calls the turn is the same: keep its identity.
    if (merged.turns[at]?.items.length === items.length) merged = putTurn(merged, at, turn)
  }
  return merged
}

function indexOfTurn({ turns }: View, turnId: string): number {
  return turns.findLastIndex((turn) => turn.turnId === turnId)
}

function indexOfItem({ items }: TurnView, itemId: string): number {
  return items.findLastIndex((item) => item.itemId === itemId)
}

function emptyTurn({ turnId, threadId }: StreamOutput): TurnView {
  return { turnId, threadId, status: 'running', items: [] }
}

function putTurn(view: View, at: number, turn: TurnView): View {
  if (at < 0) return { turns: [...view.turns, turn] }
  return view.turns[at] === turn ? view : { turns: view.turns.with(at, turn) }
}

function putItem(turn: TurnView, item: ItemSnapshot): TurnView {
  const at = indexOfItem(turn, item.itemId)
  return { ...turn, items: at < 0 ? [...turn.items, item] : turn.items.with(at, item) }
}

function applyTurnEvent(turn: TurnView, event: TurnEvent): TurnView {
  if (event.type === 'turn_started') return turn.started ? turn : { ...turn, started: event }
  if (turn.end !== undefined) return turn
  return { ...turn, status: event.type === 'turn_error' ? 'error' : event.status, end: event }
}

/** Removes the turn that a new one replaces, and those between them. */
function dropReplaced(view: View, event: TurnEvent): View {
  if (event.type !== 'turn_started' || event.replaces === undefined) return view
  const first = indexOfTurn(view, event.replaces)
  const last = indexOfTurn(view, event.turnId)
  return first < 0 || first >= last ? view : { turns: view.turns.toSpliced(first, last - first) }
}

function applyItem(turn: TurnView, item: ItemSnapshot): TurnView {
  const known = turn.items[indexOfItem(turn, item.itemId)]
  return known === undefined || isNewer(item, known) ? putItem(turn, item) : turn
}

/** Applies a call that another turn of the thread may have; undefined when none has it. */
function mergeCall(view: View, at: number, turn: TurnView, call: ToolCall): View | undefined {
  const { itemId } = call
  const hostAt = view.turns.findIndex((other) => indexOfItem(other, itemId) >= 0)
  const host = view.turns[hostAt]
  const known = host?.items.find((item) => item.itemId === itemId)
  if (host === undefined || known === undefined) return undefined
  if (at < 0 || hostAt < at) {
    const applied = putTurn(view, hostAt, applyItem(host, { ...call, turnId: host.turnId }))
    return at < 0 ? putTurn(applied, -1, turn) : applied
  }
  // The output arrived before the call: the card moves to the turn that made the call.
  const items = host.items.filter((item) => item !== known)
  const moved = applyItem(putItem(turn, call), { ...known, turnId: turn.turnId })
  return putTurn(putTurn(view, hostAt, { ...host, items }), at, moved)
}

/** Whether `item` is a later state than `known`. Text only grows until it is settled. */
function isNewer(item: ItemSnapshot, known: ItemSnapshot): boolean {
  if (isSettled(item) !== isSettled(known)) return isSettled(item)
  if (!isSettled(item)) return compare(progressOf(item), progressOf(known)) > 0
  // Text cut by the token limit is complete twice, the second time with a reason.
  if (known.finishReason !== undefined && item.finishReason === undefined) return false
  return JSON.stringify(item) !== JSON.stringify(known)
}

function isSettled({ status }: ItemSnapshot): boolean {
  return status === 'complete' || status === 'error'
}

/** How far an open item is, the most significant part first. */
function progressOf(item: ItemSnapshot): number[] {
  const { length } = item.content
  const isUpdate = item.status === 'update' ? 1 : 0
  if (item.type !== 'tool_call') return [length, isUpdate]
  // The content of a call is its arguments while they stream, and empty when they are complete.
  return [approvalProgress(item), length === 0 ? Infinity : length, isUpdate]
}

function approvalProgress({ approval }: ToolCall): number {
  if (approval === undefined) return 0
  return approval.status === 'requested' ? 1 : 2
}

function compare(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((value, index) => value !== b[index])
  return at < 0 ? 0 : Number(a[at]) - Number(b[at])
}
