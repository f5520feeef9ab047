import type { SseEvent } from '../sse/decode.ts'
import { ClientError } from './errors.ts'

/** A stream may not make a page hold more than this, in UTF-16 units. */
const MAX_EVENT_CHARS = 32 * 1024 * 1024

/**
 * Returns a decoder of one event stream: a function that returns the events which a chunk completes. It does what
 * `SseDecoder` does, with the same tests, in a fifth of its size. That one is for servers with thousands of streams.
 * Throws EVENT_TOO_LARGE.
 */
export function createEventReader(
  onComment: (text: string) => void = () => {},
): (chunk: Uint8Array) => SseEvent[] {
  // Node 26 would also remove a second byte order mark that comes in another chunk.
  const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })
  /** A character that does not count at the start of the next chunk: the byte order mark, or the end of a CRLF. */
  let ignored = '\uFEFF'
  /** The last line so far. */
  let line = ''
  let event = ''
  let data: string | undefined
  let id = ''

  return (chunk) => {
    const events: SseEvent[] = []
    const text = utf8.decode(chunk, { stream: true })
    if (text === '') return events
    const lines = text.slice(Number(text[0] === ignored)).split(/\r\n?|\n/)
    ignored = text.endsWith('\r') ? '\n' : ''
    lines[0] = line + lines[0]
    line = lines.pop() ?? ''
    for (const each of lines) {
      const [, name, value = ''] = /^([^:]*):? ?(.*)$/s.exec(each) ?? []
      if (each === '') {
        if (data !== undefined) events.push({ event, data, id })
        data = undefined
        event = ''
      } else if (name === '') onComment(value)
      else if (name === 'data') data = data === undefined ? value : `${data}\n${value}`
      else if (name === 'event') event = value
      else if (name === 'id' && !value.includes('\0')) id = value
    }
    if (line.length + (data?.length ?? 0) > MAX_EVENT_CHARS) {
      throw new ClientError('An event is too large', { code: 'EVENT_TOO_LARGE' })
    }
    return events
  }
}
