import { fillRoute, TURN_STREAM_ROUTE } from '../protocol/names.ts'
import type { ConnectionState } from './connection.ts'
import { createFeed } from './feed.ts'
import { type Context, createLive, type Live } from './live.ts'
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

/** A turn that was submitted here. */
export interface Submission {
  /** The turn as it will be, with the messages of the user. */
  readonly optimistic: TurnView
  /** Settles when the gateway has, or refuses, the turn. */
  readonly accepted: Promise<void>
}

export function createTurn(context: Context, turnId: string, submission?: Submission): Turn {
  const feed = createFeed(submission && { turns: [submission.optimistic] })
  const accepted = async () => submission?.accepted
  const live = createLive<TurnState>(context, {
    feed,
    path: fillRoute(TURN_STREAM_ROUTE, turnId) + context.query,
    // A turn that is not stored yet would be unknown.
    prepare: accepted,
    isOver: () => !feed.isHeld && feed.view.turns[0]?.end !== undefined,
    toState: ({ turns: [turn] }, connection) => ({ turn, connection }),
    toFailure: ({ cause }) => cause,
  })
  return Object.assign(live, { turnId, accepted })
}
