import type { Page, PageOptions } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'

const DEFAULT_LIMIT = 50
const MAX_LIMIT = 200

export function pageLimit({ limit = DEFAULT_LIMIT }: PageOptions): number {
  if (Number.isSafeInteger(limit) && limit >= 1) return Math.min(limit, MAX_LIMIT)
  throw new TurnstreamError('OPTION_INVALID', `limit is ${limit}`)
}

/** Returns a page. `found` has one item more than `limit` when another page follows. */
export function pageOf<T>(found: readonly T[], limit: number, cursorOf: (item: T) => string) {
  const items = found.slice(0, limit)
  const last = items.at(-1)
  if (found.length <= limit || last === undefined) return { items } satisfies Page<T>
  return { items, nextCursor: cursorOf(last) } satisfies Page<T>
}

export function parseOrdinal(cursor: string): number {
  if (/^[1-9]\d{0,14}$/.test(cursor)) return Number(cursor)
  throw invalidCursor(cursor)
}

export interface ThreadPlace {
  readonly updatedAt: number
  readonly threadId: string
}

export function formatThreadPlace({ updatedAt, threadId }: ThreadPlace): string {
  return `${updatedAt}:${threadId}`
}

export function parseThreadPlace(cursor: string): ThreadPlace {
  const [, updatedAt, threadId] = /^(\d{1,15}):(.+)$/s.exec(cursor) ?? []
  if (updatedAt === undefined || threadId === undefined) throw invalidCursor(cursor)
  return { updatedAt: Number(updatedAt), threadId }
}

/** Newest first; at the same time, the greater id first. */
export function compareThreads(a: ThreadPlace, b: ThreadPlace): number {
  if (a.updatedAt !== b.updatedAt) return b.updatedAt - a.updatedAt
  if (a.threadId === b.threadId) return 0
  return a.threadId < b.threadId ? 1 : -1
}

function invalidCursor(cursor: string): TurnstreamError {
  return new TurnstreamError('CURSOR_INVALID', JSON.stringify(cursor.slice(0, 64)))
}
