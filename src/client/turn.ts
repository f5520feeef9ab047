import { CLIENT_ROUTES } from '../protocol/names.ts'
import type { ConnectionState } from './connection.ts'
import type { ClientError } from './errors.ts'
import { Feed } from './feed.ts'
import { Live } from './live.ts'
import type { Requests } from './requests.ts'
import type { TurnView, View } from './view.ts'

export interface TurnState {
  /** Undefined until something arrived. */
  readonly turn: TurnView | undefined
  readonly connection: ConnectionState
}

/** A turn that was submitted here. */
export interface Submission {
  /** The turn as it will be, with the messages of the user. */
  readonly optimistic: TurnView
  /** Settles when the gateway has, or refuses, the turn. */
  readonly accepted: Promise<void>
}

/**
 * A turn of the gateway.
 *
 * @example
 * for await (const { turn } of client.turn(turnId)) render(turn.items)
 */
export class Turn extends Live<TurnState> {
  readonly turnId: string
  readonly #accepted: Promise<void> | undefined

  constructor(requests: Requests, turnId: string, submission?: Submission) {
    const path = CLIENT_ROUTES.turnOutputStream.replace(':turnId', encodeURIComponent(turnId))
    const view = submission && { turns: [submission.optimistic] }
    super(requests, path, new Feed(view))
    this.turnId = turnId
    this.#accepted = submission?.accepted
  }

  /** Resolves when the gateway has stored the turn. Throws ClientError if it refuses a submit. */
  async accepted(): Promise<void> {
    await this.#accepted
  }

  protected override toState(view: View, connection: ConnectionState): TurnState {
    return { turn: this.#find(view), connection }
  }

  /** A turn that is not stored yet would be unknown. */
  protected override prepare(): Promise<void> {
    return this.accepted()
  }

  protected override isOver(): boolean {
    return this.#find(this.feed.view)?.end !== undefined && !this.feed.isHeld
  }

  protected override failure({ cause }: ConnectionState): ClientError | undefined {
    return cause
  }

  #find({ turns }: View): TurnView | undefined {
    return turns.find(({ turnId }) => turnId === this.turnId)
  }
}
