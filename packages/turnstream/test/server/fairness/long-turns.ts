import { appendTo, type TextRecord } from '../../../../conformance/src/turn-log/append.ts'
import type { StreamEvent } from '../../../../core/src/index.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { CHUNK_RECORDS } from '../../../src/log/records.ts'

const LEASE_MS = 600_000

export interface LongTurn {
  readonly turnId: string
  readonly threadId?: string
  /** How many deltas it has. */
  readonly deltas: number
  readonly text?: string
  /** True by default. */
  readonly isSealed?: boolean
  readonly leaseMs?: number
}

/** Writes a turn of one message in many deltas, with its final snapshot. */
export async function writeLongTurn(log: TurnLog, options: LongTurn): Promise<void> {
  const { turnId, threadId = `thread-of-${turnId}`, deltas, text = 'word ' } = options
  const { isSealed = true, leaseMs = LEASE_MS } = options
  const lease = await log.create({ turnId, threadId, owner: 'test' }, leaseMs)
  const content = text.repeat(deltas)
  const message = { type: 'message', id: 'a', content, origin: 'agent' } as const
  const ids = { response_id: turnId, turn_id: turnId, thread_id: threadId }
  const names = { model_id: 'm', provider_id: 'p', created_at: 1 }
  const delta = { type: 'item_delta', item_id: 'a', delta_content: text } as const
  const payloads: StreamEvent['payload'][] = [
    { type: 'response_start', ...ids, ...names },
    { type: 'item_start', item_id: 'a', item_type: 'message', origin: 'agent' },
    ...Array.from({ length: deltas }, () => delta),
  ]
  if (isSealed) {
    payloads.push({ type: 'item_done', item_id: 'a', final_item: message })
    payloads.push({ type: 'response_done', response_id: turnId, status: 'complete' })
  }
  const records = payloads.map((payload, index): TextRecord => {
    const envelope = { event_id: `${turnId}:${index}`, timestamp: 1, run_id: turnId }
    const event = { ...envelope, trace_context: { traceparent: '' }, type: payload.type, payload }
    return { seq: index + 1, data: JSON.stringify(event) }
  })
  for (let at = 0; at < records.length; at += CHUNK_RECORDS) {
    const seal = isSealed && at + CHUNK_RECORDS >= records.length
    await appendTo(log, lease, 'events', records.slice(at, at + CHUNK_RECORDS), { seal })
  }
  const snapshot = { type: 'message', itemId: 'a', turnId, threadId, content, status: 'complete' }
  const end = { type: 'turn_complete', turnId, threadId }
  const outputs = [
    { seq: 1, data: JSON.stringify(snapshot), key: 'a' },
    ...(isSealed ? [{ seq: 2, data: JSON.stringify(end), key: 'turn_complete' }] : []),
  ]
  await appendTo(log, lease, 'processed', outputs, { seal: isSealed })
}
