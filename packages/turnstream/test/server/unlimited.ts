import type { GatewayLimits } from '../../src/server.ts'

/** For servers that are not about limits: tests ask more often than people. */
export const UNLIMITED: GatewayLimits = {
  submitsPerMinute: Infinity,
  maxRunningTurns: Infinity,
  maxOpenStreams: Infinity,
  maxConcurrentReads: Infinity,
  maxUnsentBytes: Infinity,
  maxThreads: Infinity,
}
