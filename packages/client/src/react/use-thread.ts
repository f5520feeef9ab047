import type { Client } from '../client/client.ts'
import type { ThreadState } from '../client/thread.ts'
import { useLive } from './use-live.ts'

const IDLE: ThreadState = { turns: [], hasOlder: false, connection: { status: 'idle' } }

/**
 * Follows a thread while the component is mounted, over one connection, and renders at most once per animation frame.
 * Turns and items that did not change are the same objects, so components in `memo` do not render again. Without an id it
 * does nothing. `client.thread(threadId).loadOlder()` loads earlier turns.
 *
 * @example
 * const Item = memo(({ item }: { item: ItemSnapshot }) => <p>{item.content}</p>)
 *
 * function Chat({ threadId }: { threadId: string }) {
 *   const { turns } = useThread(client, threadId)
 *   return turns.flatMap(({ items }) => items).map((item) => <Item key={item.itemId} item={item} />)
 * }
 */
export function useThread(client: Client, threadId: string | undefined): ThreadState {
  return useLive(client.thread, threadId, IDLE)
}
