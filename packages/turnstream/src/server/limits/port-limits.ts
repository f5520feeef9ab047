import type { IncomingMessage } from 'node:http'
import { type ErrorCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'

/** Limits of a port. `Infinity` means no limit; 0 is refused. */
export interface PortLimits {
  /** Open connections. 10,000 by default; further ones get a 503 and are closed. */
  readonly maxConnections: number
  /** Bytes of a request's URL. 8 KB by default. */
  readonly maxUrlBytes: number
  /** Total bytes of a request's headers. 16 KB by default. */
  readonly maxHeaderBytes: number
  /** Headers of a request. 100 by default. */
  readonly maxHeaders: number
  /** Time to send the request head. 20 s by default. */
  readonly headersTimeoutMs: number
  /** Time to send the complete request. 60 s by default. */
  readonly requestTimeoutMs: number
  /** How long a connection may stay idle. 72 s by default. */
  readonly keepAliveTimeoutMs: number
  /** How long a client may read nothing while data waits. 30 s by default; detected within twice that. */
  readonly writeTimeoutMs: number
}

export const PORT_LIMITS: PortLimits = {
  maxConnections: 10_000,
  maxUrlBytes: 8 * 1024,
  maxHeaderBytes: 16 * 1024,
  maxHeaders: 100,
  headersTimeoutMs: 20_000,
  requestTimeoutMs: 60_000,
  // Longer than proxies keep idle connections, a minute: they could send a request to one that we just closed.
  keepAliveTimeoutMs: 72_000,
  writeTimeoutMs: 30_000,
}

// Node's timers take a signed 32-bit number, and Node doubles the header count in one.
const MAX_TIMER_MS = 2 ** 31 - 1
const MAX_HEADERS = 2 ** 29

// How often Node checks request timeouts.
const CHECKS_PER_TIMEOUT = 20
const MIN_CHECK_MS = 10
const MAX_CHECK_MS = 1000

/** The limits as options of a Node server, where 0 means no limit. */
export function nodeOptions(limits: PortLimits) {
  const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs } = limits
  const headMs = Math.min(headersTimeoutMs, requestTimeoutMs)
  const checkMs = Math.ceil(headMs / CHECKS_PER_TIMEOUT)
  return {
    headersTimeout: headMs === Infinity ? 0 : headMs,
    requestTimeout: requestTimeoutMs === Infinity ? 0 : requestTimeoutMs,
    keepAliveTimeout: Math.min(keepAliveTimeoutMs, MAX_TIMER_MS),
    connectionsCheckingInterval: Math.min(Math.max(checkMs, MIN_CHECK_MS), MAX_CHECK_MS),
    // Node counts URL and headers together.
    maxHeaderSize: Math.min(limits.maxUrlBytes + limits.maxHeaderBytes, Number.MAX_SAFE_INTEGER),
  }
}

/** Node drops headers above this. One more than allowed, so that an excess is detected. */
export function nodeMaxHeaders({ maxHeaders }: PortLimits): number {
  return maxHeaders < MAX_HEADERS ? maxHeaders + 1 : 0
}

/** For socket timeouts, where 0 means no limit. */
export function nodeWriteTimeout({ writeTimeoutMs }: PortLimits): number {
  return writeTimeoutMs === Infinity ? 0 : Math.min(writeTimeoutMs, MAX_TIMER_MS)
}

/** File descriptors reserved for the store, the providers and the process itself. */
export const RESERVED_FILES = 100

interface ProcessReport {
  readonly userLimits?: { readonly open_files?: { readonly soft?: unknown } }
}

/** The open-files limit of this process, if known. Node raises the soft limit to the hard one at startup. */
export function openFilesLimit(): number | undefined {
  const soft = (process.report.getReport() as ProcessReport).userLimits?.open_files?.soft
  if (soft === 'unlimited') return Number.POSITIVE_INFINITY
  return typeof soft === 'number' ? soft : undefined
}

/** How many connections may be open. Without a free file the system closes new ones before they can be refused. */
export function connectionsFor(maxConnections: number, openFiles: number | undefined): number {
  return Math.max(1, Math.min(maxConnections, (openFiles ?? Infinity) - RESERVED_FILES))
}

/** How many connections above `max` may exist while their refusal is sent: a whole backlog if there are files for it. */
export function refusalsFor(max: number, openFiles: number | undefined): number {
  if (openFiles === undefined) return MAX_REFUSALS
  return Math.max(MIN_REFUSALS, Math.min(MAX_REFUSALS, openFiles - RESERVED_FILES - max))
}

const MIN_REFUSALS = 100
const MAX_REFUSALS = 4096

/** Separators `: ` and CRLF. */
const SEPARATORS = ': \r\n'.length

/** Checks the size of a request head. URL_TOO_LONG, HEADERS_TOO_LARGE. */
export function checkHead(
  { url = '', rawHeaders }: Pick<IncomingMessage, 'url' | 'rawHeaders'>,
  { maxUrlBytes, maxHeaderBytes, maxHeaders }: PortLimits,
): TurnstreamError | undefined {
  // Node represents each byte as one character in both.
  if (url.length > maxUrlBytes) return tooLarge('URL_TOO_LONG', maxUrlBytes)
  const count = rawHeaders.length / 2
  if (count > maxHeaders) {
    return new TurnstreamError('HEADERS_TOO_LARGE', `the limit is ${maxHeaders} headers`)
  }
  let size = count * SEPARATORS
  for (const text of rawHeaders) size += text.length
  return size > maxHeaderBytes ? tooLarge('HEADERS_TOO_LARGE', maxHeaderBytes) : undefined
}

/** An error of Node's HTTP parser. */
export interface Overflow {
  /** The last packet. */
  readonly rawPacket?: Buffer
}

/**
 * The same for a head that Node refused. The last packet usually has all of it, and shows whether the URL is too long.
 */
export function headOverflow(
  { rawPacket = Buffer.alloc(0) }: Overflow,
  { maxUrlBytes, maxHeaderBytes }: Pick<PortLimits, 'maxUrlBytes' | 'maxHeaderBytes'>,
): TurnstreamError {
  const url = /^[A-Z-]+ (\S*)/.exec(rawPacket.toString('latin1'))?.[1] ?? ''
  return url.length > maxUrlBytes
    ? tooLarge('URL_TOO_LONG', maxUrlBytes)
    : tooLarge('HEADERS_TOO_LARGE', maxHeaderBytes)
}

function tooLarge(code: ErrorCode, maxBytes: number): TurnstreamError {
  return new TurnstreamError(code, `the limit is ${maxBytes} bytes`)
}
