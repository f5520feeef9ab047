import { checkLimit } from './gateway-limits.ts'

/** What a port puts up with. `Infinity` is no limit, and 0 is refused, for each of them. */
export interface PortLimits {
  /** How many connections may be open: 10,000 unless given. One more is told 503 and closed. */
  readonly maxConnections: number
  /** How long the address of a request may be, in bytes: 8 KB unless given. */
  readonly maxUrlBytes: number
  /** How large the headers of a request may be together, in bytes: 16 KB unless given. */
  readonly maxHeaderBytes: number
  /** How many headers a request may have: 100 unless given. */
  readonly maxHeaders: number
  /** How long a client may take to send the head of a request: 20 s unless given. */
  readonly headersTimeoutMs: number
  /** How long a client may take to send all of a request: 60 s unless given. */
  readonly requestTimeoutMs: number
  /** How long a connection may be open without a request: 72 s unless given. */
  readonly keepAliveTimeoutMs: number
  /**
   * How long a client may take nothing of what waits to be sent to it: 30 s unless given. It is noticed
   * within twice that. Does not count while there is nothing to send.
   */
  readonly writeTimeoutMs: number
}

export const PORT_LIMITS: PortLimits = {
  maxConnections: 10_000,
  maxUrlBytes: 8 * 1024,
  maxHeaderBytes: 16 * 1024,
  maxHeaders: 100,
  headersTimeoutMs: 20_000,
  requestTimeoutMs: 60_000,
  // Longer than the minute after which proxies let an idle connection go: the one who closes first must be
  // the one who sends, or its request meets a closed connection.
  keepAliveTimeoutMs: 72_000,
  writeTimeoutMs: 30_000,
}

const NAMES = Object.keys(PORT_LIMITS) as (keyof PortLimits)[]

/** Fills in the defaults. OPTION_INVALID for what is neither a whole number from 1 nor `Infinity`. */
export function resolvePortLimits(given: Partial<PortLimits>): PortLimits {
  const limits = NAMES.map((name): [string, number] => [name, given[name] ?? PORT_LIMITS[name]])
  for (const [name, value] of limits) checkLimit(name, value)
  return Object.fromEntries(limits) as unknown as PortLimits
}

// A timer of Node takes a 32-bit signed number, and the count of headers is doubled in one.
const MAX_TIMER_MS = 2 ** 31 - 1
const MAX_HEADERS = 2 ** 29

// How often Node looks for requests that take too long: often enough for the limits to mean what they say.
const CHECKS_PER_TIMEOUT = 20
const MIN_CHECK_MS = 10
const MAX_CHECK_MS = 1000

/** The same as Node wants it, where 0 is no limit. */
export function nodeOptions(limits: PortLimits) {
  const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs } = limits
  const headMs = Math.min(headersTimeoutMs, requestTimeoutMs)
  const checkMs = Math.ceil(headMs / CHECKS_PER_TIMEOUT)
  return {
    headersTimeout: orNone(headMs),
    requestTimeout: orNone(requestTimeoutMs),
    keepAliveTimeout: Math.min(keepAliveTimeoutMs, MAX_TIMER_MS),
    connectionsCheckingInterval: Math.min(Math.max(checkMs, MIN_CHECK_MS), MAX_CHECK_MS),
    // Node counts address and headers together.
    maxHeaderSize: Math.min(limits.maxUrlBytes + limits.maxHeaderBytes, Number.MAX_SAFE_INTEGER),
  }
}

/** Node leaves away what is above this: with one more than is allowed it can be told that there were more. */
export function nodeMaxHeaders({ maxHeaders }: PortLimits): number {
  return maxHeaders < MAX_HEADERS ? maxHeaders + 1 : 0
}

/** For the timer of a socket. */
export function nodeWriteTimeout({ writeTimeoutMs }: PortLimits): number {
  return writeTimeoutMs === Infinity ? 0 : Math.min(writeTimeoutMs, MAX_TIMER_MS)
}

function orNone(ms: number): number {
  return ms === Infinity ? 0 : ms
}
