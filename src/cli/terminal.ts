import { once } from 'node:events'
import { styleText } from 'node:util'
import { type Clock, systemClock } from '../async/clock.ts'

type Style = Parameters<typeof styleText>[0]

/** Where a command reads and writes. */
export interface Terminal {
  input: AsyncIterable<Uint8Array>
  /** Resolves when there is room for more. */
  write: (text: string) => Promise<void>
  writeError: (text: string) => void
  /** A line for whoever waits, which the next one replaces; an empty one clears it. */
  status: (text: string) => void
  /** Colours only where a person looks. */
  style: (style: Style, text: string) => string
  columns: number
  clock: Clock
}

export function processTerminal(): Terminal {
  const { stdin, stdout, stderr, env } = process
  const hasColours = stdout.isTTY && env['NO_COLOR'] === undefined
  return {
    input: stdin,
    write: async (text) => {
      if (!stdout.write(text)) await once(stdout, 'drain')
    },
    writeError: (text) => {
      stderr.write(text)
    },
    status: (text) => {
      if (stderr.isTTY) stderr.write(`\r\u001b[2K${text}`)
    },
    style: (style, text) => (hasColours ? styleText(style, text) : text),
    columns: stdout.isTTY ? stdout.columns : 100,
    clock: systemClock,
  }
}
