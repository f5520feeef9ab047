import type { GatewayLimits } from '../../src/server/limits/key-limits.ts'

/** For servers that are not about limits: tests ask more often than people. */
export const UNLIMITED: GatewayLimits = {
  submitsPerMinute: Infinity,
  runningTurns: Infinity,
  openStreams: Infinity,
  concurrentReads: Infinity,
  unsentBytes: Infinity,
  storedThreads: Infinity,
}
