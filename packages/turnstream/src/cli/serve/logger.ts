import {
  ERROR_CODES,
  type ErrorCode,
  TurnstreamError,
} from '@turnstream/core/internal/protocol/errors'
import { withoutUndefined } from '@turnstream/core/internal/protocol/json'
import { printable } from '@turnstream/core/internal/protocol/printable'
import type { Redact } from '@turnstream/core/internal/protocol/redaction'
import type { GatewayOptions } from '../../server/gateway.ts'
import { knownCode } from '../../server/metrics/gateway-metrics.ts'
import type { Terminal } from '../terminal.ts'
import { withoutQuotes } from '../text.ts'

type LogFields = Readonly<Record<string, string | number | boolean>>

/** The log of a server: one line per entry, on standard error. */
export interface Logger {
  info(message: string, fields?: LogFields): void
  /** For problems that do not stop the server. */
  warn(message: string): void
  error(error: unknown, about?: { readonly turnId?: string; readonly requestId?: string }): void
}

const MAX_CHARS = 2000

/** Errors include prompts and answers only with `logContent`. */
export function createLogger(
  terminal: Terminal,
  { json, redact, logContent }: { json: boolean; redact: Redact; logContent: boolean },
): Logger {
  /** Redacts before lines are joined, because a secret may have spaces, and before truncation, which could leave half of one. */
  const clean = (text: string): string => {
    const line = redact(text).replaceAll(/[\s\p{Cc}]+/gu, ' ')
    return printable(line).trim().slice(0, MAX_CHARS)
  }

  function write(level: 'info' | 'warn' | 'error', text: string, given: LogFields): void {
    const time = new Date(terminal.clock.now()).toISOString()
    const message = clean(text)
    const fields = Object.entries(given).map(
      ([name, value]) => [name, typeof value === 'string' ? clean(value) : value] as const,
    )
    // ` code=STORE_FAILED turnId=…`
    const suffix = fields.map(([name, value]) => ` ${name}=${value}`).join('')
    const line = json
      ? JSON.stringify({ time, level, message, ...Object.fromEntries(fields) })
      : `${time} ${level === 'warn' ? 'warning: ' : ''}${message}${suffix}`
    terminal.writeError(`${line}\n`)
  }

  return {
    info: (message, fields = {}) => write('info', message, fields),
    warn: (message) => write('warn', message, {}),
    error(error, { turnId, requestId } = {}) {
      const describe = logContent ? describeError : describeErrorWithoutContent
      const { message, code, ...rest } = describe(error)
      write('error', message, { ...withoutUndefined({ code, turnId, requestId }), ...rest })
    },
  }
}

/** Logs requests, and starts and ends of turns, without content and URLs: a URL may contain a token. */
export function accessLog(logger: Logger): Pick<GatewayOptions, 'onRequest' | 'onTurn'> {
  return {
    onRequest: (request) => logger.info('request', { ...request }),
    onTurn: (turn, outcome) => {
      if (outcome === undefined) return logger.info('turn started', { ...turn })
      const { status, code, durationMs, usage } = outcome
      logger.info('turn ended', {
        ...turn,
        status,
        ...(code !== undefined && { code: knownCode(code) }),
        durationMs,
        ...(usage && { inputTokens: usage.prompt_tokens, outputTokens: usage.completion_tokens }),
      })
    },
  }
}

interface ErrorDescription {
  readonly message: string
  readonly code?: string
  readonly cause?: string
  readonly at?: string
}

/** The details of these errors are our own: names, ids, numbers. Quoted parts are removed. */
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

/** Errors about names in a program. Not SyntaxError: JSON's quotes its input. */
const OF_THE_LANGUAGE = new Set(['TypeError', 'RangeError', 'ReferenceError'])

const SYSTEM_CODE = /^[A-Z][A-Z0-9_]{2,60}$/

const WITHHELD = 'message not logged'
const NOT_AN_ERROR = 'a value that is not an error'

/** All details of an error. May contain prompts and answers. */
export function describeError(error: unknown): ErrorDescription {
  const message = fullMessage(error)
  if (!(error instanceof TurnstreamError)) return { message, ...findPlace(error) }
  const { code, cause } = error
  return { message, code, ...(cause !== undefined && { cause: fullMessage(cause) }) }
}

function fullMessage(error: unknown): string {
  if (error instanceof Error) return error.message
  return typeof error === 'string' ? error : NOT_AN_ERROR
}

/** The same without prompts and answers: a message is logged only if its author is known. */
export function describeErrorWithoutContent(error: unknown): ErrorDescription {
  // A ResponseStreamError may have a code that is not in the table.
  if (!(error instanceof TurnstreamError) || !Object.hasOwn(ERROR_CODES, error.code)) {
    return { message: foreignMessage(error), ...findPlace(error) }
  }
  const { code, cause, message } = error
  const isPlain = PLAIN.has(code)
  return {
    message: isPlain ? withoutQuotes(message) : ERROR_CODES[code].summary,
    code,
    ...(cause !== undefined && {
      cause: describeErrorWithoutContent(cause).message,
      ...(!isPlain && findPlace(cause)),
    }),
  }
}

function foreignMessage(error: unknown): string {
  if (!(error instanceof Error)) return `${NOT_AN_ERROR}; ${WITHHELD}`
  const { name } = error.constructor
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  const isSystem = SYSTEM_CODE.test(code) && !(error instanceof TurnstreamError)
  if (OF_THE_LANGUAGE.has(name) || isSystem) return withoutQuotes(error.message)
  return `${name}; ${WITHHELD}`
}

/** Where an unexpected error was thrown. A line of its message may look like a stack frame. */
function findPlace(error: unknown): { at?: string } {
  if (!(error instanceof Error) || error.stack === undefined) return {}
  const { stack, message } = error
  const start = stack.indexOf(message)
  if (start === -1) return {}
  const at = stack.slice(start + message.length).split('\n')[1]
  return at === undefined ? {} : { at: at.trim() }
}
