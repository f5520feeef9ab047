import { type AppendFrame, applyAppend } from '../protocol/append-frame.ts'
import type { TurnStatus } from '../protocol/stream-event.ts'
import type {
  ItemSnapshot,
  StreamOutput,
  ToolCall,
  TurnComplete,
  TurnError,
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
  const { turnId, threadId } = output
  const at = indexOfTurn(view, turnId)
  const turn = view.turns[at] ?? { turnId, threadId, status: 'running', items: [] }
  if ('itemId' in output) return applyItem(view, at, turn, output)
  if (output.type === 'turn_started') {
    const next = turn.started ? view : putTurn(view, at, { ...turn, started: output })
    return output.replaces ? dropReplaced(next, output.replaces, turnId) : next
  }
  const status = output.type === 'turn_error' ? 'error' : output.status
  // Without a status it is of a later version.
  return turn.end || !status ? view : putTurn(view, at, { ...turn, status, end: output })
}

/**
 * Applies an append frame to a view. Returns undefined when the frame does not continue the item: then reconnect
 * without a cursor and start with an empty view.
 */
export function append(view: View, frame: AppendFrame): View | undefined {
  const at = indexOfHost(view, frame.itemId)
  const turn = view.turns[at]
  const item = turn?.items[indexOfItem(turn, frame.itemId)]
  const grown = item && applyAppend(item, frame)
  return turn && grown && putTurn(view, at, putItem(turn, grown))
}

/** Puts the turns of an earlier page before those of a view. */
export function prepend(view: View, older: View): View {
  let merged = older
  for (const turn of view.turns) {
    merged = outputsOf(turn).reduce(apply, merged)
    const at = indexOfTurn(merged, turn.turnId)
    // Without merged calls the turn is the same: keep its identity.
    if (merged.turns[at]?.items.length === turn.items.length) merged = putTurn(merged, at, turn)
  }
  return merged
}

/** Everything that is known of a turn. */
export function outputsOf({ started, items, end }: TurnView): StreamOutput[] {
  return [started, ...items, end].filter((output) => !!output)
}

export function hasTurn(view: View, turnId: string): boolean {
  return indexOfTurn(view, turnId) >= 0
}

function indexOfTurn({ turns }: View, turnId: string): number {
  return turns.findLastIndex((turn) => turn.turnId === turnId)
}

function indexOfItem({ items }: TurnView, itemId: string): number {
  return items.findLastIndex((item) => item.itemId === itemId)
}

/** Of the turn that has the item. */
function indexOfHost({ turns }: View, itemId: string): number {
  return turns.findLastIndex((turn) => indexOfItem(turn, itemId) >= 0)
}

function put<T>(list: readonly T[], at: number, value: T): readonly T[] {
  return at < 0 ? [...list, value] : list.with(at, value)
}

function putTurn(view: View, at: number, turn: TurnView): View {
  return view.turns[at] === turn ? view : { turns: put(view.turns, at, turn) }
}

function putItem(turn: TurnView, item: ItemSnapshot): TurnView {
  return { ...turn, items: put(turn.items, indexOfItem(turn, item.itemId), item) }
}

/** Removes a turn that another one replaces, and those between them. */
function dropReplaced(view: View, replaced: string, by: string): View {
  const first = indexOfTurn(view, replaced)
  const last = indexOfTurn(view, by)
  return first < 0 || first >= last ? view : { turns: view.turns.toSpliced(first, last - first) }
}

function putNewer(turn: TurnView, item: ItemSnapshot): TurnView {
  const known = turn.items[indexOfItem(turn, item.itemId)]
  return known && !isNewer(item, known) ? turn : putItem(turn, item)
}

/** Applies an item in the turn that has it. A call may be in another turn than the one that completes it. */
function applyItem(view: View, at: number, turn: TurnView, item: ItemSnapshot): View {
  const { itemId } = item
  const hostAt = indexOfHost(view, itemId)
  const host = view.turns[hostAt]
  const known = host?.items[indexOfItem(host, itemId)]
  if (item.type !== 'tool_call' || !known || hostAt === at)
    return putTurn(view, at, putNewer(turn, item))
  if (at < 0 || hostAt < at) {
    const { turnId } = host
    return putTurn(putTurn(view, hostAt, putNewer(host, { ...item, turnId })), at, turn)
  }
  // The output arrived before the call: the card moves to the turn that made the call.
  const items = host.items.filter((each) => each !== known)
  const moved = putNewer(putItem(turn, item), { ...known, turnId: turn.turnId })
  return putTurn(putTurn(view, hostAt, { ...host, items }), at, moved)
}

/** Whether `item` is a later state than `known`. Text only grows until it is settled. */
function isNewer(item: ItemSnapshot, known: ItemSnapshot): boolean {
  const progress = progressOf(item)
  if (progress > progressOf(known)) return true
  // Text cut by the token limit is complete twice, the second time with a reason.
  if (progress < Infinity || (known.finishReason && !item.finishReason)) return false
  return JSON.stringify(item) !== JSON.stringify(known)
}

/** More than the length of any text. */
const COMPLETE = 1e10

/** How far an item is: the status of an open one counts least, then its text, then its approval. */
function progressOf(item: ItemSnapshot): number {
  const { approval, toolArgumentsText } = item as Partial<ToolCall>
  const isUpdate = ['create', 'update'].indexOf(item.status)
  if (isUpdate < 0) return Infinity
  // Arguments that are complete are not sent as text.
  const length =
    item.type === 'tool_call' ? (toolArgumentsText?.length ?? COMPLETE) : item.content.length
  const answers = approval ? (approval.status === 'requested' ? 1 : 2) : 0
  return 4 * COMPLETE * answers + 2 * length + isUpdate
}
