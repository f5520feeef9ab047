import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { styleText } from 'node:util'
import { type Clock, monotonicNow, systemClock } from '@turnstream/core/internal/async/clock'
import { escapeControls } from './text.ts'

type Style = Parameters<typeof styleText>[0]

export interface AskOptions {
  /** Whether to ignore what was typed before the prompt, which cannot be meant as its answer. Default false. */
  readonly ignoresTypeAhead?: boolean
}

/** The input and output of a command. Output cannot control the terminal: see `escapeControls`. */
export interface Terminal {
  input: AsyncIterable<Uint8Array>
  /** Resolves when the output has drained. */
  write: (text: string) => Promise<void>
  writeError: (text: string) => void
  /** A status line, replaced by the next one; an empty one clears it. Call it at the start of a line. */
  status: (text: string) => void
  /** The same for commands whose output is not on the screen, where it would show the progress itself. */
  progress: (text: string) => void
  style: (style: Style, text: string) => string
  columns: number
  clock: Clock
  isInteractive: boolean
  /** Prompts for a line; undefined after Ctrl-C or Ctrl-D. */
  ask: (prompt: string, options?: AskOptions) => Promise<string | undefined>
  /** Listens for SIGINT and SIGTERM, which then do not end the process. Returns a function that stops listening. */
  onSignal: (listener: () => void) => () => void
  /** Listens for SIGHUP, which then does not end the process. */
  onHangup: (listener: () => void) => void
  /** Handles an uncaught error in place of Node, which would print all its properties. */
  onCrash: (listener: (error: unknown) => void) => void
  exit: (code: number) => void
  env: Readonly<Record<string, string | undefined>>
  cwd: string
}

export function processTerminal(): Terminal {
  const { stdin, stdout, stderr, env } = process
  const isColoured = hasColours(env, stdout.isTTY)
  const status = statusLine()
  return {
    input: stdin,
    write: async (text) => {
      if (!stdout.write(escapeControls(text))) await once(stdout, 'drain')
    },
    writeError: (text) => void stderr.write(escapeControls(text)),
    status,
    progress: (text) => {
      if (!stdout.isTTY) status(text)
    },
    // `hasColours` has decided; by default styleText would apply its own rules.
    style: (style, text) => (isColoured ? styleText(style, text, { validateStream: false }) : text),
    columns: columnsOf(stdout),
    clock: systemClock,
    isInteractive: stdin.isTTY && stdout.isTTY,
    ask: questions(),
    onSignal,
    onHangup: (listener) => void process.on('SIGHUP', listener),
    onCrash: (listener) => void process.once('uncaughtException', listener),
    exit: (code) => process.exit(code),
    env,
    cwd: process.cwd(),
  }
}

/** FORCE_COLOR wins in both directions, then NO_COLOR, then whether it is a terminal. */
export function hasColours(env: Terminal['env'], isTerminal: boolean): boolean {
  const { FORCE_COLOR: forced, NO_COLOR: refused, TERM: kind } = env
  if (forced !== undefined) return forced !== '0' && forced !== 'false'
  if (refused !== undefined && refused !== '') return false
  return isTerminal && kind !== 'dumb'
}

const DEFAULT_COLUMNS = 100

/** A terminal without a size, as in some containers, reports 0 columns. */
export function columnsOf(stream: Pick<NodeJS.WriteStream, 'isTTY' | 'columns'>): number {
  return stream.isTTY && stream.columns > 0 ? stream.columns : DEFAULT_COLUMNS
}

function statusLine(): Terminal['status'] {
  const { stderr } = process
  let shown = ''
  return (text) => {
    // Without a status line, clearing would remove printed output.
    if (stderr.isTTY && text !== shown) stderr.write(`\r\u001b[2K${escapeControls(text)}`)
    shown = text
  }
}

function questions(): Terminal['ask'] {
  let history: string[] = []
  return async (prompt, { ignoresTypeAhead = false } = {}) => {
    if (ignoresTypeAhead && (await discardTyped()) === CTRL_C) return undefined
    return new Promise((resolve) => {
      // Only while it prompts: otherwise Ctrl-C must stay a signal.
      const lines = createInterface({ input: process.stdin, output: process.stdout, history })
      let answer: string | undefined
      lines.on('history', (lastLines) => {
        history = lastLines
      })
      lines.on('SIGINT', () => lines.close())
      lines.on('close', () => resolve(answer))
      lines.question(prompt, (line) => {
        answer = line
        lines.close()
      })
    })
  }
}

const CTRL_C = '\u0003'
const QUIET_MS = 100

/** Discards what was typed so far, until nothing was typed for a moment. Returns early on Ctrl-C. */
function discardTyped(): Promise<typeof CTRL_C | undefined> {
  const { stdin } = process
  return new Promise((resolve) => {
    const end = (result?: typeof CTRL_C): void => {
      clearTimeout(timer)
      stdin.off('data', discard)
      stdin.pause()
      stdin.setRawMode(false)
      resolve(result)
    }
    const discard = (typed: Buffer | string): void => {
      if (typed.includes(CTRL_C)) end(CTRL_C)
      else timer.refresh()
    }
    const timer = setTimeout(end, QUIET_MS)
    // Otherwise the terminal holds back a line that is not complete.
    stdin.setRawMode(true)
    stdin.on('data', discard).resume()
  })
}

function onSignal(listener: () => void): () => void {
  process.on('SIGINT', listener).on('SIGTERM', listener)
  return () => void process.off('SIGINT', listener).off('SIGTERM', listener)
}

/** Short waits need no progress, and faster updates are unreadable. */
const SHOW_EVERY_MS = 200

/** Calls `show` a few times a second at most. Skipped texts are not formatted. */
export function throttled(
  clock: Clock,
  show: (text: string) => void,
): (text: () => string) => void {
  let last = monotonicNow(clock)
  return (text) => {
    if (monotonicNow(clock) - last < SHOW_EVERY_MS) return
    last = monotonicNow(clock)
    show(text())
  }
}

/** Passes items on. `count` is called for each one and returns the progress text. */
export async function* withProgress<T>(
  items: AsyncIterable<T>,
  { clock, progress }: Terminal,
  count: (item: T) => () => string,
): AsyncGenerator<T> {
  const show = throttled(clock, progress)
  for await (const item of items) {
    yield item
    show(count(item))
  }
}
