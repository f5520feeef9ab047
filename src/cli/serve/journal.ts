import { TurnstreamError } from '../../protocol/errors.ts'
import type { Terminal } from '../terminal.ts'

interface About {
  readonly turnId?: string
  readonly requestId?: string
}

/** What a server says of itself while it runs: one line each, on standard error. */
export interface Journal {
  info(message: string): void
  error(error: unknown, about?: About): void
}

export interface JournalOptions {
  readonly json: boolean
  readonly redact: (text: string) => string
}

export function createJournal(terminal: Terminal, { json, redact }: JournalOptions): Journal {
  const { clock, writeError } = terminal

  function write(level: 'info' | 'error', message: string, fields: Record<string, string>): void {
    const time = new Date(clock.now()).toISOString()
    const said = redact(message)
    const known = mapValues(fields, redact)
    const line = json
      ? JSON.stringify({ time, level, message: said, ...known })
      : `${time} ${said}${words(known)}`
    writeError(`${line}\n`)
  }

  return {
    info: (message) => write('info', message, {}),
    error(error, about = {}) {
      const { turnId, requestId } = about
      write('error', messageOf(error), {
        ...(error instanceof TurnstreamError && { code: error.code }),
        ...(turnId !== undefined && { turnId }),
        ...(requestId !== undefined && { requestId }),
        ...causeOf(error),
      })
    },
  }
}

/** ` code=STORE_FAILED turnId=…`, each of them in one line. */
function words(fields: Record<string, string>): string {
  return Object.entries(fields)
    .map(([name, value]) => ` ${name}=${oneLine(value)}`)
    .join('')
}

function mapValues(
  fields: Record<string, string>,
  change: (text: string) => string,
): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, change(value)]))
}

function messageOf(error: unknown): string {
  return oneLine(error instanceof Error ? error.message : String(error))
}

/** What lies behind an error of ours; of any other, where it was thrown: nobody has foreseen it. */
function causeOf(error: unknown): { cause?: string; at?: string } {
  if (!(error instanceof Error)) return {}
  if (!(error instanceof TurnstreamError)) {
    const at = error.stack?.split('\n').find((line) => line.trimStart().startsWith('at '))
    return at === undefined ? {} : { at: at.trim() }
  }
  return error.cause === undefined ? {} : { cause: messageOf(error.cause) }
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim()
}
