import type { AppendFrame } from '@turnstream/core/internal/protocol/append-frame'
import { APPEND_EVENT, RESYNC_EVENT } from '@turnstream/core/internal/protocol/names'
import type { StreamOutput } from '@turnstream/core/internal/protocol/stream-output'
import { ClientError } from './errors.ts'
import type { Frame } from './sse.ts'
import {
  append,
  apply,
  EMPTY_VIEW,
  findTurn,
  mergePage,
  putTurn,
  reuse,
  type TurnView,
  type View,
} from './view.ts'

/** The cursor before the first record. */
export const START = '0-0'

/** What arrived of one turn or thread, over any number of connections. */
export interface Feed {
  view: View
  /** Where the stream continues. */
  cursor: string
  /** Of the page before the view, if there is one. */
  older?: string | undefined
  /** After a restart, what arrived since. It replaces the view when it is complete: with its first cursor. */
  rebuilt?: View | undefined
  /** How often the view started over. From the second time on, appends are not requested any more. */
  restarts: number
}

export const createFeed = (view: View = EMPTY_VIEW): Feed => ({ view, cursor: START, restarts: 0 })

/** Starts over: the next connection reads everything again. Throws as if this one were lost. */
export const restart = (feed: Feed): never => {
  feed.cursor = START
  feed.rebuilt = EMPTY_VIEW
  feed.restarts += 1
  throw new ClientError('Out of sync')
}

/** Takes a frame, or restarts when it does not continue what was received. */
export const applyFrame = (feed: Feed, { event, data, id }: Frame): void => {
  if (!data) return
  const { view, cursor, rebuilt } = feed
  let next: View | undefined
  try {
    next = viewAfter(rebuilt ?? view, cursor, event, JSON.parse(data))
  } catch {
    // Not JSON, or not of the shape that its name promises.
  }
  if (!next) return restart(feed)
  const isComplete = !rebuilt || id !== cursor
  feed.rebuilt = isComplete ? undefined : next
  if (isComplete) feed.view = rebuilt ? reuse(next, view) : next
  feed.cursor = id
}

/**
 * Replaces the turns that a page of the newest turns covers. Older ones stay, and so do those submitted here that the
 * gateway has not sent. `older` is the cursor of the page before.
 */
export const replaceNewest = (feed: Feed, page: View, older: string | undefined): void => {
  const { turns } = feed.view
  const [first] = turns
  const merged = mergePage(feed.view, page)
  // Otherwise the view begins where it did.
  if (!first?.started || first.turnId !== merged.turns[0]?.turnId) feed.older = older
  feed.view = turns.reduce(addSubmitted, merged)
  feed.rebuilt = undefined
}

/** Adds a turn that is submitted here, unless the gateway has sent it. */
export const addSubmitted = (view: View, turn: TurnView): View =>
  turn.started || findTurn(view, turn.turnId)?.started ? view : putTurn(view, turn)

/** What a frame says, by its name. */
type Data = AppendFrame & StreamOutput & { readonly reason?: string; readonly replaces?: string }

const viewAfter = (
  view: View,
  cursor: string,
  event: string | undefined,
  data: Data,
): View | undefined => {
  if (event === APPEND_EVENT) return append(view, data)
  // Nothing follows in a turn that has expired. The other turns of its thread do. One that was running has to be loaded
  // again.
  if (event === RESYNC_EVENT) {
    return data.reason === 'trimmed' &&
      cursor.includes('/') &&
      view.turns.every((turn) => turn.end || !turn.started)
      ? view
      : undefined
  }
  // V14: which turns are left when the replaced one was never seen, only the gateway knows.
  const { turnId, replaces } = data
  const isKnown = !replaces || !view.turns[0] || findTurn(view, turnId) || findTurn(view, replaces)
  if (!isKnown) return undefined
  // Other events are of a later version.
  return event ? view : apply(view, data)
}
