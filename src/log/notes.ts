import { TurnstreamError } from '../protocol/errors.ts'
import { checkId, hasLoneSurrogate } from './records.ts'
import type { TurnLog } from './turn-log.ts'

/** Maximum number of values that a key holds. */
export const MAX_NOTES = 16

const MAX_NOTE_CHARS = 500
const MAX_KEYS_READ = 64

/** A value and when it expires. */
export type Note = readonly [until: number, value: string]

/** Throws RECORD_INVALID for a note that no store accepts. */
export function checkNote(key: string, value: string, ttlMs: number): void {
  checkId('key', key)
  if (value.length > MAX_NOTE_CHARS || hasLoneSurrogate(value)) {
    const detail = `a note must have at most ${MAX_NOTE_CHARS} characters of valid Unicode`
    throw new TurnstreamError('RECORD_INVALID', detail)
  }
  if (Number.isSafeInteger(ttlMs) && ttlMs > 0) return
  throw new TurnstreamError('RECORD_INVALID', `ttlMs is ${ttlMs}`)
}

/** Throws RECORD_INVALID for keys that cannot be read together. */
export function checkNoteKeys(keys: readonly string[]): void {
  for (const key of keys) checkId('key', key)
  if (keys.length <= MAX_KEYS_READ) return
  const detail = `${keys.length} keys; at most ${MAX_KEYS_READ} can be read at once`
  throw new TurnstreamError('RECORD_INVALID', detail)
}

/** The notes of a key that have not expired, oldest first. */
export function liveNotes(notes: readonly Note[], now: number): Note[] {
  return notes.filter(([until]) => until > now)
}

/** When the last of the notes expires. */
export function lastExpiry(notes: readonly Note[]): number {
  return notes.reduce((last, [until]) => Math.max(last, until), 0)
}

/** A century, for stores that never expire turns. */
const MAX_TTL_MS = 100 * 365 * 24 * 60 * 60 * 1000

/** The time to live of a note that should last as long as a turn. */
export function retainedMs({ retentionMs }: Pick<TurnLog, 'retentionMs'>): number {
  return Math.ceil(Math.min(retentionMs, MAX_TTL_MS))
}
