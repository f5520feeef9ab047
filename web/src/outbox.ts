import { useSyncExternalStore } from 'preact/compat'
import type { Delivery } from '../../packages/client/src/index.ts'

export const cancelPath = (turnId: string) => `/api/v2/runs/${encodeURIComponent(turnId)}/cancel`
export const approvalPath = (turnId: string, approvalId: string) =>
  `/api/v2/runs/${encodeURIComponent(turnId)}/approvals/${encodeURIComponent(approvalId)}`
export const threadPath = (threadId: string) => `/api/v2/threads/${encodeURIComponent(threadId)}`

/** What the gateway has not answered yet: submits by turn, the others by path. */
const deliveries = new Map<string, Delivery>()
const listeners = new Set<() => void>()

export function noteDelivery(delivery: Delivery): void {
  const { path, body, status } = delivery
  const id = body && 'turnId' in body ? String(body.turnId) : path
  if (status === 'connecting') deliveries.set(id, delivery)
  else deliveries.delete(id)
  // A reload would lose it.
  if (deliveries.size > 0) addEventListener('beforeunload', warn)
  else removeEventListener('beforeunload', warn)
  for (const listener of listeners) listener()
}

function warn(event: BeforeUnloadEvent): void {
  if (Array.from(deliveries.values()).some(({ cause }) => cause !== undefined)) {
    event.preventDefault()
  }
}

/** Undefined once it is answered. */
export function useDelivery(id: string): Delivery | undefined {
  return useSyncExternalStore(subscribe, () => deliveries.get(id))
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
