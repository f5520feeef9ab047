import { ClientError } from './errors.ts'

/** The fields of a frame by name. The comment of a frame has no name. */
export interface Frame {
  readonly event?: string
  readonly id: string
  readonly data?: string
  readonly ['']?: string
}

/**
 * Returns a reader of one event stream: a function that returns the frames which a text completes. It reads what a gateway
 * sends, with the line ends of any proxy: each field at most once per frame, with a colon. `SseDecoder` reads the streams
 * of others. Throws EVENT_TOO_LARGE.
 */
export const createFrameReader = (): ((text: string) => Frame[]) => {
  let rest = ''
  let id = ''

  return (text) => {
    // A long frame comes in many texts without a line end: to search all of it each time takes quadratic time.
    const blocks = text.includes('\n') ? (rest + text).split(/\n\r?\n/) : [rest + text]
    rest = blocks.pop() as string
    // A stream may not make a page hold more than this, in UTF-16 units.
    const maxLength = 2 ** 25
    if (rest.length > maxLength) {
      throw new ClientError('Too large', { code: 'EVENT_TOO_LARGE', status: 413 })
    }
    return blocks.map((block) => {
      // An id holds until the next one.
      const fields: Frame & Record<string, string> = { id }
      for (const [, name, value] of block.matchAll(/^(\w*): ?([^\r\n]*)/gm)) {
        fields[name as string] = value as string
      }
      id = fields.id
      return fields
    })
  }
}
