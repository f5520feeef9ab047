import type { Context } from 'hono'
import { parseOffset, START } from '../../log/offsets.ts'
import { ID_PATTERN } from '../../log/records.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { HEADERS } from '../../protocol/names.ts'

/**
 * The cursor that a request comes with. The header wins: an EventSource that comes back keeps its address,
 * and with it the cursor that it had at first.
 */
export function cursorOf({ req }: Context): string | undefined {
  const header = req.header(HEADERS.lastEventId)
  return header === undefined || header === '' ? req.query('from') : fromUtf8(header)
}

/** Headers arrive as bytes; browsers send an id in the way in which they got it, as UTF-8. */
function fromUtf8(header: string): string {
  return Buffer.from(header, 'latin1').toString()
}

/** A place in a thread: in one of its turns, or before all of them. */
export type ThreadCursor = { readonly turnId: string; readonly offset: string } | undefined

/** `<turnId>/<offset>`, or `0-0` for the beginning. */
export function parseThreadCursor(text: string): ThreadCursor {
  // An id may have slashes of its own.
  const slash = text.lastIndexOf('/')
  const offset = text.slice(slash + 1)
  parseOffset(offset)
  const turnId = text.slice(0, Math.max(0, slash))
  // It goes back to the reader as it came: what is no id could be a line of its own there.
  if (ID_PATTERN.test(turnId)) return { turnId, offset }
  if (text === START) return undefined
  throw new TurnstreamError('CURSOR_INVALID', JSON.stringify(text.slice(0, 64)))
}

export function formatThreadCursor(turnId: string, offset: string): string {
  return `${turnId}/${offset}`
}
