import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { styleText } from 'node:util'
import { type Clock, monotonicNow, systemClock } from '../async/clock.ts'
import { escapeControls } from './text.ts'

type Style = Parameters<typeof styleText>[0]

/** What asks a process to end. */
export type EndSignal = 'SIGINT' | 'SIGTERM'

/** Where a command reads and writes. What is written cannot control the terminal: see `escapeControls`. */
export interface Terminal {
  input: AsyncIterable<Uint8Array>
  /** Resolves when there is room for more. */
  write: (text: string) => Promise<void>
  writeError: (text: string) => void
  /** A line for whoever waits, which the next one replaces; an empty one clears it. For the start of a line. */
  status: (text: string) => void
  /** The same for work whose output goes elsewhere: where it is on the screen, it shows how far things are. */
  progress: (text: string) => void
  /** Colours only where a person looks. */
  style: (style: Style, text: string) => string
  columns: number
  clock: Clock
  /** Whether a person types and reads here. */
  isInteractive: boolean
  /** A line that a person types; undefined when they leave, with Ctrl-C or Ctrl-D. */
  ask: (prompt: string) => Promise<string | undefined>
  /** As long as somebody listens, a signal does not end the process. The answer stops listening. */
  onSignal: (listener: (signal: EndSignal) => void) => () => void
  /** Hears each SIGHUP, which then does not end the process. */
  onHangup: (listener: () => void) => void
  /** Hears of the error that nobody caught, in place of Node, which would print all that hangs on it. */
  onCrash: (listener: (error: unknown) => void) => void
  /** Ends the process immediately, whatever is in flight. */
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
    // `hasColours` has decided; styleText would decide again, by other rules.
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

/** FORCE_COLOR has the last word, in both directions; then NO_COLOR, then whether a person looks. */
export function hasColours(env: Terminal['env'], isTerminal: boolean): boolean {
  const { FORCE_COLOR: forced, NO_COLOR: refused, TERM: kind } = env
  if (forced !== undefined) return forced !== '0' && forced !== 'false'
  if (refused !== undefined && refused !== '') return false
  return isTerminal && kind !== 'dumb'
}

const DEFAULT_COLUMNS = 100

/** A terminal that does not know its size, as that of a container may, has 0 columns. */
export function columnsOf(stream: Pick<NodeJS.WriteStream, 'isTTY' | 'columns'>): number {
  return stream.isTTY && stream.columns > 0 ? stream.columns : DEFAULT_COLUMNS
}

function statusLine(): Terminal['status'] {
  const { stderr } = process
  let shown = ''
  return (text) => {
    // Clearing what is not there would clear what was printed.
    if (stderr.isTTY && text !== shown) stderr.write(`\r\u001b[2K${escapeControls(text)}`)
    shown = text
  }
}

/** Asks one after another, and remembers the lines for the arrow keys. */
function questions(): Terminal['ask'] {
  let history: string[] = []
  return (prompt) =>
    new Promise((resolve) => {
      // Only while it asks: between questions the keys belong to nobody, and Ctrl-C is a signal.
      const lines = createInterface({ input: process.stdin, output: process.stdout, history })
      let answer: string | undefined
      lines.on('history', (kept) => {
        history = kept
      })
      lines.on('SIGINT', () => lines.close())
      lines.on('close', () => resolve(answer))
      lines.question(prompt, (line) => {
        answer = line
        lines.close()
      })
    })
}

const SIGNALS: readonly EndSignal[] = ['SIGINT', 'SIGTERM']

function onSignal(listener: (signal: EndSignal) => void): () => void {
  for (const signal of SIGNALS) process.on(signal, listener)
  return () => {
    for (const signal of SIGNALS) process.off(signal, listener)
  }
}

/** Before that nobody wonders, and a line that changes more often cannot be read. */
const SHOW_EVERY_MS = 200

/** Calls `show` a few times a second at most. Texts that are not shown are not made either. */
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

/** Passes items on. `count` is called for each one and makes the text that says how far things are. */
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
