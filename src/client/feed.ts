import type { AppendFrame } from '../protocol/append-frame.ts'
import { APPEND_EVENT, RESYNC_EVENT } from '../protocol/names.ts'
import type { StreamOutput } from '../protocol/stream-output.ts'
import { ClientError } from './errors.ts'
import type { Frame } from './sse.ts'
import { append, apply, EMPTY_VIEW, findTurn, type View } from './view.ts'

/** The cursor before the first record. */
export const START = '0-0'

/** What arrived of one turn or thread, over any number of connections. */
export interface Feed {
  view: View
  /** Where the stream continues. */
  cursor: string
  /** Of the page before the view, if there is one. */
  older?: string | undefined
  /** After a restart the view is incomplete until its first records with a cursor: show the previous one. */
  isHeld?: boolean | undefined
  /** How often the view started over. From the second time on, appends are not requested any more. */
  restarts: number
}

export const createFeed = (view: View = EMPTY_VIEW): Feed => ({ view, cursor: START, restarts: 0 })

/** Starts over: the next connection reads everything again. Throws as if this one were lost. */
export const restart = (feed: Feed): never => {
  feed.view = EMPTY_VIEW
  feed.cursor = START
  feed.isHeld = true
  feed.restarts += 1
  throw new ClientError('Out of sync')
}

/** Takes a frame, or restarts when it does not continue what was received. */
export const take = (feed: Feed, { event, data, id }: Frame): void => {
  if (!data) return
  let view: View | undefined
  try {
    view = viewAfter(feed, event, JSON.parse(data))
  } catch {
    // Not JSON, or not of the shape that its name promises.
  }
  feed.view = view ?? restart(feed)
  if (id !== feed.cursor) feed.isHeld = false
  feed.cursor = id
}

/** What a frame says, by its name. */
type Data = AppendFrame & StreamOutput & { readonly reason?: string; readonly replaces?: string }

const viewAfter = (
  { view, cursor }: Feed,
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
