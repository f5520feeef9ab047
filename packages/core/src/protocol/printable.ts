/** C0 and C1 control characters except tab and newline, DEL, and controls that change the direction of text. */
export const CONTROLS = String.raw`[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]`
const CONTROL = new RegExp(CONTROLS, 'gu')

/** Drops control characters from text of models, servers and files. */
export function printable(text: string): string {
  return text.replaceAll(CONTROL, '')
}

/** One line, truncated in the middle: the start identifies it, the end is new. */
export function clip(text: string, room: number): string {
  const line = printable(text).replaceAll(/\s+/g, ' ')
  if (line.length <= room) return line
  const head = Math.ceil(room / 2)
  return `${line.slice(0, head)}…${line.slice(line.length - (room - head - 1))}`
}
