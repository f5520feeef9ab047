import { type AppendFrame, applyAppend } from '@turnstream/core/internal/protocol/append-frame'
import type { TurnStatus } from '@turnstream/core/internal/protocol/stream-event'
import type {
  ItemSnapshot,
  StreamOutput,
  ToolCall,
  TurnComplete,
  TurnError,
  TurnStarted,
} from '@turnstream/core/internal/protocol/stream-output'

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

/** The view to start with. */
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
export const apply = (view: View, output: StreamOutput): View => {
  const { turnId, threadId } = output
  const turn = findTurn(view, turnId) ?? { turnId, threadId, status: 'running', items: [] }
  if ('itemId' in output) return applyItem(view, turn, output)
  if (output.type === 'turn_started') {
    const next = turn.started ? view : putTurn(view, { ...turn, started: output })
    return output.replaces ? dropReplaced(next, output.replaces, turnId) : next
  }
  const status = output.type === 'turn_error' ? 'error' : output.status
  // Without a status it is of a later version.
  return turn.end || !status ? view : putTurn(view, { ...turn, status, end: output })
}

/**
 * Applies an append frame to a view. Returns undefined when the frame does not continue the item: then reconnect
 * without a cursor and start with an empty view.
 *
 * @example
 * source.addEventListener('append', ({ data }) => {
 *   const next = append(view, JSON.parse(data))
 *   if (next) render((view = next))
 *   else restart()
 * })
 */
export const append = (view: View, frame: AppendFrame): View | undefined => {
  const turn = findHost(view, frame.itemId)
  const item = turn && findItem(turn, frame.itemId)
  const grown = item && applyAppend(item, frame)
  return grown && putTurn(view, putItem(turn, grown))
}

/** Puts the turns of an earlier page of a thread before those of a view. Tool calls that span both are merged. */
export const prepend = (view: View, older: View): View => {
  let merged = older
  for (const turn of view.turns) {
    merged = outputsOf(turn).reduce(apply, merged)
    const { length } = turn.items
    // Without merged calls the turn is the same: keep its identity.
    if (findTurn(merged, turn.turnId)?.items.length === length) merged = putTurn(merged, turn)
  }
  return merged
}

/** Puts the turns of a view that are older than those of a page before the page. What is equal keeps its identity. */
export const mergePage = (view: View, page: View): View => {
  const first = page.turns[0]
  const older = first ? view.turns.slice(0, Math.max(0, indexOfTurn(view, first.turnId))) : []
  return reuse(prepend(page, { turns: older }), view)
}

/** Returns `view` with what is equal in `known` in its place, so that it keeps its identity. */
export const reuse = (view: View, known: View): View => ({
  turns: view.turns.map((turn) => {
    const before = findTurn(known, turn.turnId)
    if (!before || isEqual(turn, before)) return before ?? turn
    const items = turn.items.map((item) => {
      const same = findItem(before, item.itemId)
      return same && isEqual(item, same) ? same : item
    })
    return { ...turn, items }
  }),
})

export const isEqual = (one: object, other: object): boolean =>
  JSON.stringify(one) === JSON.stringify(other)

/** Everything that is known of a turn. */
export const outputsOf = ({ started, items, end }: TurnView): StreamOutput[] =>
  [started, ...items, end].flatMap((output) => output ?? [])

export const findTurn = (view: View, turnId: string): TurnView | undefined =>
  view.turns[indexOfTurn(view, turnId)]

const indexOfTurn = ({ turns }: View, turnId: string): number =>
  turns.findLastIndex((turn) => turn.turnId === turnId)

const findItem = ({ items }: TurnView, itemId: string): ItemSnapshot | undefined =>
  items.findLast((item) => item.itemId === itemId)

const findHost = ({ turns }: View, itemId: string): TurnView | undefined =>
  turns.findLast((turn) => findItem(turn, itemId))

/** Replaces the entry with the same id, or adds one. */
const put = <T>(list: readonly T[], value: T, id: keyof T): readonly T[] => {
  const at = list.findLastIndex((each) => each[id] === value[id])
  return at < 0 ? [...list, value] : list.with(at, value)
}

export const putTurn = (view: View, turn: TurnView): View =>
  view.turns.includes(turn) ? view : { turns: put(view.turns, turn, 'turnId') }

const putItem = (turn: TurnView, item: ItemSnapshot): TurnView => ({
  ...turn,
  items: put(turn.items, item, 'itemId'),
})

/** Removes a turn that another one replaces, and those between them. */
const dropReplaced = (view: View, replaced: string, by: string): View => {
  const first = indexOfTurn(view, replaced)
  const last = indexOfTurn(view, by)
  return first < 0 || first >= last ? view : { turns: view.turns.toSpliced(first, last - first) }
}

/** Applies an item in the first turn that has it: a call may be completed by a later turn than the one that made it. */
const applyItem = (view: View, turn: TurnView, item: ItemSnapshot): View => {
  const { itemId } = item
  const host = (item.type === 'tool_call' && findHost(view, itemId)) || turn
  const known = findItem(host, itemId)
  if (!known || host === turn) {
    return known && !isNewer(item, known) ? view : putTurn(view, putItem(turn, item))
  }
  const first = view.turns.find((each) => each === host || each === turn)
  if (first === host) {
    return applyItem(putTurn(view, turn), host, { ...item, turnId: host.turnId })
  }
  // The output arrived before the call: the card moves to the turn that made the call.
  const items = host.items.filter((each) => each !== known)
  const rest = putTurn(view, { ...host, items })
  return [item, { ...known, turnId: turn.turnId }].reduce(apply, rest)
}

/** Whether `item` is a later state than `known`. Text only grows until it is settled. */
const isNewer = (item: ItemSnapshot, known: ItemSnapshot): boolean => {
  const progress = progressOf(item)
  if (progress > progressOf(known)) return true
  // Text cut by the token limit is complete twice, the second time with a reason.
  if (progress < Infinity || (known.finishReason && !item.finishReason)) return false
  return !isEqual(item, known)
}

/** More than the length of any text. */
const COMPLETE = 1e10

/** How far an item is: the status of an open one counts least, then its text, then its approval. */
const progressOf = (item: ItemSnapshot): number => {
  const { approval, toolArgumentsText } = item as Partial<ToolCall>
  const isUpdate = ['create', 'update'].indexOf(item.status)
  if (isUpdate < 0) return Infinity
  // Arguments that are complete are not sent as text.
  const length =
    item.type === 'tool_call' ? (toolArgumentsText?.length ?? COMPLETE) : item.content.length
  const answers = approval ? (approval.status === 'requested' ? 1 : 2) : 0
  return 4 * COMPLETE * answers + 2 * length + isUpdate
}
