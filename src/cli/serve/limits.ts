import type { GatewayLimits } from '../../server/limits/key-limits.ts'
import type { PortLimits } from '../../server/limits/port-limits.ts'
import type { Settings } from './settings.ts'

/** The limits of a key, under the names that they have in the program. */
export function keyLimitsOf(settings: Settings): GatewayLimits {
  return {
    submitsPerMinute: settings.submitsPerMinute,
    runningTurns: settings.maxRunningTurns,
    openStreams: settings.maxOpenStreams,
    concurrentReads: settings.maxConcurrentReads,
    unsentBytes: settings.maxUnsentBytes,
    storedThreads: settings.maxThreads,
  }
}

/** The same for the port. */
export function portLimitsOf(settings: Settings): Partial<PortLimits> {
  const { maxConnections, maxUrlBytes, maxHeaderBytes } = settings
  return {
    maxConnections,
    maxUrlBytes,
    maxHeaderBytes,
    headersTimeoutMs: settings.headersTimeout,
    requestTimeoutMs: settings.requestTimeout,
    keepAliveTimeoutMs: settings.keepAliveTimeout,
    writeTimeoutMs: settings.writeTimeout,
  }
}
