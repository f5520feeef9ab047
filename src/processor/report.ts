import { type ErrorCode, TurnstreamError } from '../protocol/errors.ts'
import type { Effect, TurnState } from './turn-state.ts'

// Ids come from outside: past this many distinct strays the stream is hopeless, and remembering
// each of them would let a broken source fill the memory.
const MAX_REPORTS = 1000

/** One report for each code and subject, however often it happens. */
export function reportOnce(
  turn: TurnState,
  code: ErrorCode,
  subject: string,
  detail: string,
): readonly Effect[] {
  const key = `${code} ${subject}`
  if (turn.reported.has(key) || turn.reported.size >= MAX_REPORTS) return []
  turn.reported.add(key)
  return [{ do: 'report', error: new TurnstreamError(code, detail) }]
}
