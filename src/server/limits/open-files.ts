import { isRecord } from '../../protocol/json.ts'

/** File descriptors for the store, the providers and what the process itself has open. */
export const RESERVED_FILES = 100

/**
 * How many files this process may have open; undefined where the system does not tell. Node raises the soft limit
 * to the hard one when it starts.
 */
export function openFilesLimit(): number | undefined {
  const report: unknown = process.report.getReport()
  const limits = isRecord(report) ? report['userLimits'] : undefined
  const files = isRecord(limits) ? limits['open_files'] : undefined
  const soft = isRecord(files) ? files['soft'] : undefined
  if (soft === 'unlimited') return Number.POSITIVE_INFINITY
  return typeof soft === 'number' ? soft : undefined
}

/**
 * How many connections there may be. Without a free descriptor the system would close a new connection before this
 * process could refuse, count or log it.
 */
export function connectionsFor(maxConnections: number, openFiles: number | undefined): number {
  return Math.max(1, Math.min(maxConnections, (openFiles ?? Infinity) - RESERVED_FILES))
}
