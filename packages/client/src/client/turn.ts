import type { ConnectionState } from './connection.ts'
import { createFeed } from './feed.ts'
import { type Context, createLive, type Live, type OpenLive } from './live.ts'
import { path } from './paths.ts'
import type { TurnView } from './view.ts'

export interface TurnState {
  /** Undefined until something arrived. */
  readonly turn: TurnView | undefined
  readonly connection: ConnectionState
}

/**
 * A turn of the gateway.
 *
 * @example
 * for await (const { turn } of client.turn(turnId)) render(turn?.items)
 */
export interface Turn extends Live<TurnState> {
  readonly turnId: string
  /** Resolves when the gateway has stored the turn. Throws ClientError if it refuses a submit. */
  readonly accepted: () => Promise<void>
}

export type OpenTurn = Turn & OpenLive<TurnState>

/** Creates a turn. One that is submitted here has its messages at once; `submitted` settles when the gateway has it. */
export const createTurn = (
  context: Context,
  turnId: string,
  optimistic?: TurnView,
  submitted?: Promise<void>,
): OpenTurn => {
  const feed = createFeed(optimistic && { turns: [optimistic] })
  const accepted = async () => submitted
  const live = createLive<TurnState>(context, {
    feed,
    path: path`/xapi/turns/${turnId}`,
    // A turn that is not stored yet would be unknown.
    prepare: accepted,
    isOver: () => !feed.rebuilt && !!feed.view.turns[0]?.end,
    toState: ({ turns: [turn] }, connection) => ({ turn, connection }),
  })
  return Object.assign(live, { turnId, accepted })
}
