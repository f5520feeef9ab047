import type { IncomingMessage } from 'node:http'
import { TurnstreamError } from '../../protocol/errors.ts'
import type { PortLimits } from './port-limits.ts'

/** What stands between a name and its value, and after both. */
const SEPARATORS = ': \r\n'.length

/** Why a request is too large before its body, if it is. URL_TOO_LONG, HEADERS_TOO_LARGE. */
export function oversizeOf(
  { url = '', rawHeaders }: Pick<IncomingMessage, 'url' | 'rawHeaders'>,
  { maxUrlBytes, maxHeaderBytes, maxHeaders }: PortLimits,
): TurnstreamError | undefined {
  // Node hands out both as they came, one character for each byte.
  if (url.length > maxUrlBytes) return urlTooLong(maxUrlBytes)
  const count = rawHeaders.length / 2
  if (count > maxHeaders) {
    return new TurnstreamError('HEADERS_TOO_LARGE', `${maxHeaders} of them are allowed`)
  }
  let size = count * SEPARATORS
  for (const text of rawHeaders) size += text.length
  return size > maxHeaderBytes ? headersTooLarge(maxHeaderBytes) : undefined
}

/** What the parser of Node gave up on. */
export interface Overflow {
  /** What had just come. */
  readonly rawPacket?: Buffer
}

const LINE_END = 0x0a

/**
 * The same for a request that Node has not read to the end of its head. As a rule it came in one piece, which
 * shows whether it is the address; where it did not, the headers are named, of which the address is one in a
 * wider sense.
 */
export function overflowOf(
  { rawPacket = Buffer.alloc(0) }: Overflow,
  { maxUrlBytes, maxHeaderBytes }: Pick<PortLimits, 'maxUrlBytes' | 'maxHeaderBytes'>,
): TurnstreamError {
  const lineEnd = rawPacket.indexOf(LINE_END)
  const line = rawPacket.toString('latin1', 0, lineEnd === -1 ? rawPacket.length : lineEnd)
  const url = /^[A-Z-]+ (\S*)/.exec(line)?.[1] ?? ''
  return url.length > maxUrlBytes ? urlTooLong(maxUrlBytes) : headersTooLarge(maxHeaderBytes)
}

function urlTooLong(maxUrlBytes: number): TurnstreamError {
  return new TurnstreamError('URL_TOO_LONG', `${maxUrlBytes} bytes are allowed`)
}

function headersTooLarge(maxHeaderBytes: number): TurnstreamError {
  return new TurnstreamError('HEADERS_TOO_LARGE', `${maxHeaderBytes} bytes are allowed`)
}
