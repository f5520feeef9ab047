import { ERROR_CODES, type ErrorCode, TurnstreamError } from '../../protocol/errors.ts'
import { withoutQuotes } from './secrets.ts'

/** What a log says of an error. */
export interface ErrorWords {
  readonly message: string
  readonly code?: string
  readonly cause?: string
  readonly at?: string
}

/** The details of these are our own words: names, ids, numbers, places. What they quote is left out. */
const PLAIN: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'BACKPRESSURE',
  'EVENT_INVALID',
  'EVENT_TYPE_UNKNOWN',
  'ITEM_UNKNOWN',
  'KEYS_FILE_INVALID',
  'LEASE_HELD',
  'LEASE_LOST',
  'LOG_SEALED',
  'LOG_SEQUENCE_GAP',
  'OPTION_INVALID',
  'PROCESSOR_OVERFLOW',
  'RECORD_INVALID',
  'SERVER_SHUTDOWN',
  'STORE_CORRUPT',
  'STORE_FAILED',
  'STORE_FULL',
  'STORE_LOCKED',
  'STORE_READ_ONLY',
  'STORE_UNAVAILABLE',
  'STORE_VERSION',
  'TOOL_OUTPUT_ORPHANED',
  'TOOL_TIMEOUT',
  'TURN_DELETED',
  'TURN_EXPIRED',
  'TURN_UNKNOWN',
])

/** Thrown by the language itself, about names in a program. JSON that cannot be read is none of these. */
const OF_THE_LANGUAGE = new Set(['TypeError', 'RangeError', 'ReferenceError'])

/** As the system and Node name what went wrong. */
const SYSTEM_CODE = /^[A-Z][A-Z0-9_]{2,60}$/

const WITHHELD = 'its message is not logged'

/** Everything that is known of an error. It may repeat what was asked and answered. */
export function fullWords(error: unknown): ErrorWords {
  const isOurs = error instanceof TurnstreamError
  return {
    message: messageOf(error),
    ...(isOurs && { code: error.code }),
    ...(isOurs && error.cause !== undefined && { cause: messageOf(error.cause) }),
    ...(!isOurs && placeOf(error)),
  }
}

/**
 * What is known of an error but for what was asked and answered: a vendor, a tool, a parser and a store repeat
 * what they could not use. A message counts only if it is known who wrote it.
 */
export function plainWords(error: unknown): ErrorWords {
  // A ResponseStreamError may have a code that is not in the table.
  if (!(error instanceof TurnstreamError) || !Object.hasOwn(ERROR_CODES, error.code)) {
    return { message: foreignWords(error), ...placeOf(error) }
  }
  const { code, cause, message } = error
  return {
    message: PLAIN.has(code) ? withoutQuotes(message) : ERROR_CODES[code].summary,
    code,
    ...(cause !== undefined && { cause: causeWords(cause) }),
    ...(cause !== undefined && !PLAIN.has(code) && placeOf(cause)),
  }
}

function causeWords(cause: unknown): string {
  return cause instanceof TurnstreamError ? plainWords(cause).message : foreignWords(cause)
}

function foreignWords(error: unknown): string {
  if (!(error instanceof Error)) return `something that is no error; ${WITHHELD}`
  const { name } = error.constructor
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  const isSystem = SYSTEM_CODE.test(code) && !(error instanceof TurnstreamError)
  if (OF_THE_LANGUAGE.has(name) || isSystem) return withoutQuotes(error.message)
  return `${name}; ${WITHHELD}`
}

function messageOf(error: unknown): string {
  if (error instanceof Error) return error.message
  return typeof error === 'string' ? error : 'something that is no error'
}

/** Where an error was thrown that nobody has foreseen. A line of its message may look like a place. */
function placeOf(error: unknown): { at?: string } {
  if (!(error instanceof Error) || error.stack === undefined) return {}
  const { stack, message } = error
  const start = stack.indexOf(message)
  if (start === -1) return {}
  const at = stack.slice(start + message.length).split('\n')[1]
  return at === undefined ? {} : { at: at.trim() }
}
