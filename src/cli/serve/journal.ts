import type { Redact } from '../../protocol/redaction.ts'
import { printable } from '../printable.ts'
import type { Terminal } from '../terminal.ts'
import { fullWords, plainWords } from './error-words.ts'

interface About {
  readonly turnId?: string
  readonly requestId?: string
}

/** What is told besides, by name. */
type Fields = Readonly<Record<string, string | number>>

/** What a server says of itself while it runs: one line each, on standard error. */
export interface Journal {
  info(message: string, fields?: Fields): void
  /** What works, and is not as it should be. */
  warn(message: string): void
  error(error: unknown, about?: About): void
}

export interface JournalOptions {
  readonly json: boolean
  readonly redact: Redact
  /** Whether errors may repeat what was asked and answered. */
  readonly logContent?: boolean
}

type Level = 'info' | 'warn' | 'error'

/** Longer ones are cut: nobody reads them in a log. */
const MAX_CHARS = 2000

export function createJournal(terminal: Terminal, options: JournalOptions): Journal {
  const { json, redact, logContent = false } = options
  const { clock, writeError } = terminal

  /** Before lines are joined: a secret may have spaces. And before they are cut: half of one is not known. */
  const clean = (text: string): string => oneLine(redact(text)).slice(0, MAX_CHARS)

  function write(level: Level, message: string, fields: Fields): void {
    const time = new Date(clock.now()).toISOString()
    const said = clean(message)
    const known = mapTexts(fields, clean)
    const line = json
      ? JSON.stringify({ time, level, message: said, ...known })
      : `${time} ${level === 'warn' ? 'warning: ' : ''}${said}${words(known)}`
    writeError(`${line}\n`)
  }

  return {
    info: (message, fields = {}) => write('info', message, fields),
    warn: (message) => write('warn', message, {}),
    error(error, about = {}) {
      const { turnId, requestId } = about
      const { message, code, ...behind } = logContent ? fullWords(error) : plainWords(error)
      write('error', message, {
        ...(code !== undefined && { code }),
        ...(turnId !== undefined && { turnId }),
        ...(requestId !== undefined && { requestId }),
        ...behind,
      })
    },
  }
}

/** ` code=STORE_FAILED turnId=…` */
function words(fields: Fields): string {
  return Object.entries(fields)
    .map(([name, value]) => ` ${name}=${value}`)
    .join('')
}

function mapTexts(fields: Fields, change: (text: string) => string): Fields {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      typeof value === 'string' ? change(value) : value,
    ]),
  )
}

function oneLine(text: string): string {
  return printable(text.replaceAll(/[\s\p{Cc}]+/gu, ' ')).trim()
}
