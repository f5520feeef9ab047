/* Vendors refuse some call ids of others. Requests have ids that they take, and answers the original ones. */

import type { OutputItem } from '../protocol/output-item.ts'
import type { StreamEventPayload } from '../protocol/stream-event.ts'

/** What is sent in place of call ids that the vendor refuses. */
export type SentCallIds = ReadonlyMap<string, string>

interface Rule {
  readonly accepts: (callId: string) => boolean
  /** Returns an id that the vendor accepts. With another suffix it is another one. */
  readonly rewrite: (callId: string, suffix: string) => string
}

/** The same thread gives the same ids, and different calls different ones. */
export function sentCallIds(input: readonly OutputItem[], { accepts, rewrite }: Rule): SentCallIds {
  const callIds = new Set(input.flatMap((item) => ('call_id' in item ? item.call_id : [])))
  const ids = new Map<string, string>()
  const taken = new Set([...callIds].filter(accepts))
  // Never starts over: each taken id is met once, however many begin alike.
  let count = 0
  for (const callId of callIds) {
    if (accepts(callId)) continue
    let id = rewrite(callId, '')
    while (id === '' || taken.has(id)) {
      count += 1
      id = rewrite(callId, `_${count}`)
    }
    ids.set(callId, id)
    taken.add(id)
  }
  return ids
}

export function sentId(ids: SentCallIds, callId: string): string {
  return ids.get(callId) ?? callId
}

export const MAX_CALL_ID_CHARS = 64

/** Ids that OpenAI accepts. It has issued its own, however long. */
export function shortCallIds(
  input: readonly OutputItem[],
  isOwn: (item: OutputItem) => boolean = () => false,
): SentCallIds {
  const own = new Set(
    input.flatMap((item) => (item.type === 'function_call' && isOwn(item) ? item.call_id : [])),
  )
  return sentCallIds(input, {
    accepts: (id) => id.length <= MAX_CALL_ID_CHARS || own.has(id),
    rewrite: (id, suffix) =>
      id.slice(0, MAX_CALL_ID_CHARS - suffix.length).replace(HALF_PAIR, '') + suffix,
  })
}

const HALF_PAIR = /[\uD800-\uDBFF]$/

export class CallIdRestorer {
  readonly #originals: SentCallIds

  constructor(ids: SentCallIds = new Map()) {
    this.#originals = new Map([...ids].map(([id, sent]) => [sent, id]))
  }

  restore(payload: StreamEventPayload): StreamEventPayload {
    if (this.#originals.size === 0) return payload
    if (payload.type === 'item_start') return this.#withOriginal(payload)
    if (payload.type !== 'item_done') return payload
    return { ...payload, final_item: this.#withOriginal(payload.final_item) }
  }

  #withOriginal<Item extends object>(item: Item): Item {
    const sent = 'call_id' in item ? item.call_id : undefined
    const call_id = typeof sent === 'string' ? this.#originals.get(sent) : undefined
    return call_id === undefined ? item : { ...item, call_id }
  }
}
