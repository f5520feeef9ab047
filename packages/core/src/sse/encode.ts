export interface SseFrame {
  /** Must not contain line breaks or U+0000. An empty string clears the client's last id. */
  id?: string
  /** Must not contain line breaks or U+0000. An empty string means no name. */
  event?: string
  /** Any text. Without data the client stores the id and dispatches nothing. */
  data?: string
  /** Reconnection delay in whole milliseconds. */
  retry?: number
  /** Any text. Clients ignore it. */
  comment?: string
}

const LINE_BREAK = /\r\n|\r|\n/
// oxlint-disable-next-line no-control-regex -- the control characters are what it is about
const BREAKS_FIELD = /[\r\n\0]/

/**
 * Encodes one frame with its blank line. Decoding it returns the same frame, with every line break in `data`
 * as a line feed. Throws RangeError for an id, name or delay that cannot be sent: a modified id would resume
 * at the wrong position.
 */
export function encodeSse({ id, event, data, retry, comment }: SseFrame): string {
  let frame = ''
  if (retry !== undefined) frame += `retry: ${wholeMs(retry)}\n`
  if (comment !== undefined) frame += linesOf(': ', comment)
  if (id !== undefined) frame += `id: ${oneLine('id', id)}\n`
  if (event !== undefined && event !== '') frame += `event: ${oneLine('event', event)}\n`
  if (data !== undefined) frame += dataLines(data)
  return `${frame}\n`
}

/** Encodes a comment, which clients ignore. Keeps an idle connection open. */
export function encodeComment(text: string): string {
  return `${linesOf(': ', text)}\n`
}

function dataLines(data: string): string {
  // JSON contains no line breaks. Always splitting would take three times as long for a frame of 290
  // characters (bench/sse).
  if (!data.includes('\n') && !data.includes('\r')) return `data: ${data}\n`
  return linesOf('data: ', data)
}

function linesOf(prefix: string, text: string): string {
  return text
    .split(LINE_BREAK)
    .map((line) => `${prefix}${line}\n`)
    .join('')
}

function oneLine(field: 'id' | 'event', value: string): string {
  if (!BREAKS_FIELD.test(value)) return value
  throw new RangeError(`${field} must have no line break and no U+0000: ${JSON.stringify(value)}`)
}

function wholeMs(retry: number): number {
  if (Number.isSafeInteger(retry) && retry >= 0) return retry
  throw new RangeError(`retry must be an integer of milliseconds, not ${retry}`)
}
