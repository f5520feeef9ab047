import { TurnstreamError } from '../../protocol/errors.ts'

/** What one key may do on this instance; everybody together, as long as there are no keys. */
export interface GatewayLimits {
  /** How many turns it may submit in any 60 seconds: 60 unless given. */
  readonly submitsPerMinute: number
  /** How many of its turns may run at the same time: 10 unless given. */
  readonly runningTurns: number
  /** How many streams it may have open: 200 unless given. */
  readonly openStreams: number
  /** Reads of turns and threads in progress, those that wait for earlier ones included. 100 by default. */
  readonly concurrentReads: number
  /** Bytes of answers and streams that its clients have not taken yet. 64 MB by default. */
  readonly unsentBytes: number
  /** Stored threads of its tenant. 100,000 by default. */
  readonly storedThreads: number
}

const DEFAULTS: GatewayLimits = {
  submitsPerMinute: 60,
  runningTurns: 10,
  openStreams: 200,
  concurrentReads: 100,
  unsentBytes: 64 * 1024 * 1024,
  storedThreads: 100_000,
}

/** Fills in the defaults. OPTION_INVALID for what is neither a whole number from 1 nor `Infinity`. */
export function resolveLimits(given: Partial<GatewayLimits> = {}): GatewayLimits {
  const limits = { ...DEFAULTS, ...given }
  for (const [name, value] of Object.entries(limits)) checkLimit(name, value)
  return limits
}

/** `Infinity` switches a limit off; 0 could mean that as well as its contrary, and means nothing. */
export function checkLimit(name: string, value: number): void {
  if (value === Infinity || (Number.isSafeInteger(value) && value >= 1)) return
  const detail = `${name} must be a whole number from 1, or Infinity for no limit, not ${value}`
  throw new TurnstreamError('OPTION_INVALID', detail)
}
