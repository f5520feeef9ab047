import { getHeapStatistics } from 'node:v8'
import { openFilesLimit, RESERVED_FILES } from '../../server/limits/port-limits.ts'
import type { Settings } from '../serve/settings.ts'
import { type Check, fail, ok, skipped, warn } from './check.ts'
import { megabytes } from './words.ts'

/** What this process was given to live with. */
export interface Machine {
  readonly nodeVersion: string
  /** What can still be had, and what the engine takes at most. */
  readonly freeBytes: number
  readonly heapBytes: number
  /** How many files may be open; undefined where the system does not say, Infinity without an end. */
  readonly openFiles: number | undefined
}

export function thisMachine(): Machine {
  return {
    nodeVersion: process.versions.node,
    // A container may have less than the machine; this knows it.
    freeBytes: process.availableMemory(),
    heapBytes: getHeapStatistics().heap_size_limit,
    openFiles: openFilesLimit(),
  }
}

/** Of package.json; test/cli/doctor/machine-check.test.ts compares. */
const LEAST_NODE = [20, 19] as const

export function nodeCheck({ nodeVersion }: Machine): Check {
  const [major = 0, minor = 0] = nodeVersion.split('.').map(Number)
  const [leastMajor, leastMinor] = LEAST_NODE
  const isEnough = major > leastMajor || (major === leastMajor && minor >= leastMinor)
  if (isEnough) return ok('node', nodeVersion)
  const needed = LEAST_NODE.join('.')
  return fail('node', nodeVersion, `Install Node ${needed} or newer: nvm install --lts`)
}

// docs/operations.md#sizing: a process begins at some 90 MB.
const START_BYTES = 90e6
// A connection with its buffers, and what it reads of a log at a time.
const CONNECTION_BYTES = 20_000
const BYTES_PER_CHAR = 2

/** What the limits allow at the same time, in the worst case, if that is bounded at all. */
function neededBytes(settings: Settings, keys: number): number {
  const { maxConnections, maxRunningTurns, maxTurnChars, maxHistoryBytes } = settings
  const turns = maxRunningTurns * Math.max(1, keys)
  const turnBytes = maxTurnChars * BYTES_PER_CHAR + maxHistoryBytes
  return START_BYTES + turns * turnBytes + maxConnections * CONNECTION_BYTES
}

export function memoryCheck(machine: Machine, settings: Settings, keys: number): Check {
  const { freeBytes, heapBytes } = machine
  const available = Math.min(freeBytes, heapBytes)
  const needed = neededBytes(settings, keys)
  const shown = `${megabytes(available)} available`
  if (available < START_BYTES) {
    return fail('memory', shown, `Give it ${megabytes(START_BYTES)} at the least; see: free -m`)
  }
  if (needed === Number.POSITIVE_INFINITY) {
    return ok('memory', `${shown}; with unlimited turns or connections there is no bound`)
  }
  const found = `${shown}; the limits allow for ${megabytes(needed)}`
  if (needed <= available) return ok('memory', found)
  const isHeap = heapBytes <= freeBytes
  const more = isHeap
    ? `NODE_OPTIONS=--max-old-space-size=${Math.ceil(needed / 2 ** 20)}`
    : 'more memory'
  return warn(
    'memory',
    found,
    `Give it ${more}, or lower --max-running-turns, --max-turn-chars, --max-history-bytes or --max-connections`,
  )
}

const LEAST_FILES = 256

export function filesCheck({ openFiles }: Machine, { maxConnections }: Settings): Check {
  const name = 'open files'
  if (openFiles === undefined) return skipped(name, 'the system does not say how many there may be')
  const isUnlimited = maxConnections === Number.POSITIVE_INFINITY
  const needed = isUnlimited ? LEAST_FILES : maxConnections + RESERVED_FILES
  const connections = isUnlimited ? 'as many connections as come' : `${maxConnections} connections`
  const found = `${openFiles} at a time, for ${connections}`
  if (openFiles >= needed) return ok(name, found)
  const fix = `Raise the limit (ulimit -n ${needed}; LimitNOFILE=${needed} in systemd), or lower --max-connections`
  return openFiles < LEAST_FILES ? fail(name, found, fix) : warn(name, found, fix)
}
