import { styleText } from 'node:util'

type Style = Parameters<typeof styleText>[0]

/** Where a command writes. Colours only where a person looks. */
export interface Terminal {
  write: (text: string) => void
  style: (style: Style, text: string) => string
  columns: number
}

export function stdoutTerminal(): Terminal {
  const { stdout, env } = process
  const hasColours = stdout.isTTY && env['NO_COLOR'] === undefined
  return {
    write: (text) => {
      stdout.write(text)
    },
    style: (style, text) => (hasColours ? styleText(style, text) : text),
    columns: stdout.isTTY ? stdout.columns : 100,
  }
}
