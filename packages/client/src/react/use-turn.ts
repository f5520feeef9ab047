import type { Client } from '../client/client.ts'
import type { TurnState } from '../client/turn.ts'
import { useLive } from './use-live.ts'

const IDLE: TurnState = { turn: undefined, connection: { status: 'idle' } }

/**
 * Follows a turn while the component is mounted, and renders at most once per animation frame. Components with the same
 * turn share a connection. Without an id it does nothing.
 *
 * @example
 * const client = createClient()
 *
 * function Answer({ turnId }: { turnId: string }) {
 *   const { turn, connection } = useTurn(client, turnId)
 *   return <p aria-busy={connection.status !== 'ended'}>{turn?.items.at(-1)?.content}</p>
 * }
 */
export function useTurn(client: Client, turnId: string | undefined): TurnState {
  return useLive(client.turn, turnId, IDLE)
}
