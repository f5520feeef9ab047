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
  const utf8 = new TextDecoder()
  /** The last line so far. */
  let rest = ''
  let event = ''
  let data: string | undefined
  let id = ''

  return (chunk) => {
    const events: SseEvent[] = []
    // A CR at the end may be half of a CRLF.
    const lines = (rest + utf8.decode(chunk, { stream: true })).split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const [, name, value = ''] = /^([^:]*):? ?(.*)$/s.exec(line) ?? []
      if (!line) {
        if (data !== undefined) events.push({ event, data, id })
        data = undefined
        event = ''
      } else if (!name) onComment(value)
      else if (name === 'data') data = data === undefined ? value : `${data}\n${value}`
      else if (name === 'event') event = value
      else if (name === 'id' && !value.includes('\0')) id = value
    }
    if (rest.length + (data?.length ?? 0) > MAX_EVENT_CHARS) {
      throw new ClientError('Too large', { code: 'EVENT_TOO_LARGE', status: 413 })
    }
    return events
  }
}
