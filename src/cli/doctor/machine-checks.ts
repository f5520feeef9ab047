import { once } from 'node:events'
import { createServer } from 'node:net'
import { getHeapStatistics } from 'node:v8'
import type { Clock } from '../../async/clock.ts'
import { isRecord, parseJsonSafe } from '../../protocol/json.ts'
import { HEADERS, ROUTES } from '../../protocol/names.ts'
import { openFilesLimit, RESERVED_FILES } from '../../server/limits/port-limits.ts'
import { type Answer, call } from '../http.ts'
import type { Settings } from '../serve/settings.ts'
import { megabytes, messageOf } from '../text.ts'
import { type Check, fail, isAtLeast, ok, skipped, warn } from './check.ts'

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

/** Of package.json; a test compares them. */
const LEAST_NODE = [20, 19] as const

export function nodeCheck({ nodeVersion }: Machine): Check {
  if (isAtLeast(nodeVersion, LEAST_NODE)) return ok('node', nodeVersion)
  const fix = `Install Node ${LEAST_NODE.join('.')} or newer: nvm install --lts`
  return fail('node', nodeVersion, fix)
}

// docs/operations.md#sizing: a process begins at some 90 MB.
const START_BYTES = 90e6
// A connection with its buffers, and what it reads of a log at a time.
const CONNECTION_BYTES = 20_000
const BYTES_PER_CHAR = 2

export function memoryCheck(machine: Machine, settings: Settings, keys: number): Check {
  const { freeBytes, heapBytes } = machine
  const available = Math.min(freeBytes, heapBytes)
  // What the limits allow at the same time, in the worst case; Infinity if that has no bound.
  const turns = settings.maxRunningTurns * Math.max(1, keys)
  const turnBytes = settings.maxTurnChars * BYTES_PER_CHAR + settings.maxHistoryBytes
  const needed = START_BYTES + turns * turnBytes + settings.maxConnections * CONNECTION_BYTES
  const shown = `${megabytes(available)} available`
  if (available < START_BYTES) {
    return fail('memory', shown, `Provide at least ${megabytes(START_BYTES)}; see: free -m`)
  }
  if (needed === Number.POSITIVE_INFINITY) {
    return ok('memory', `${shown}; unlimited turns or connections have no bound`)
  }
  const found = `${shown}; the limits allow for ${megabytes(needed)}`
  if (needed <= available) return ok('memory', found)
  const more =
    heapBytes <= freeBytes
      ? `NODE_OPTIONS=--max-old-space-size=${Math.ceil(needed / 2 ** 20)}`
      : 'more memory'
  const limits = '--max-running-turns, --max-turn-chars, --max-history-bytes or --max-connections'
  return warn('memory', found, `Provide ${more}, or lower ${limits}`)
}

const LEAST_FILES = 256

export function filesCheck({ openFiles }: Machine, { maxConnections }: Settings): Check {
  const name = 'open files'
  if (openFiles === undefined) return skipped(name, 'the system does not report the limit')
  const isUnlimited = maxConnections === Number.POSITIVE_INFINITY
  const needed = isUnlimited ? LEAST_FILES : maxConnections + RESERVED_FILES
  const connections = isUnlimited ? 'unlimited connections' : `${maxConnections} connections`
  const found = `${openFiles} at a time, for ${connections}`
  if (openFiles >= needed) return ok(name, found)
  const fix = `Raise the limit (ulimit -n ${needed}; LimitNOFILE=${needed} in systemd), or lower --max-connections`
  return openFiles < LEAST_FILES ? fail(name, found, fix) : warn(name, found, fix)
}

/** Opens the port and closes it at once, or asks who has it. A server of ours may be `runningAt` it already. */
export async function lookAtPort(
  { host, port }: Settings,
  clock: Clock,
): Promise<{ check: Check; runningAt?: string }> {
  const name = 'port'
  const where = `${host}:${port}`
  if (port === 0) return { check: ok(name, `any free port on ${host}`) }
  const code = await listenError(host, port)
  if (code === undefined) return { check: ok(name, `${where} is free`) }
  if (code !== 'EADDRINUSE') {
    const fix =
      code === 'EACCES'
        ? 'Choose one from 1024 on with --port <n>: those below are for root'
        : 'Choose a local address with --host; list them with: ip addr'
    return { check: fail(name, `${where}: ${code}`, fix) }
  }
  const url = `http://${localAddress(host)}:${port}`
  if (await isGateway(url, clock)) {
    return { check: ok(name, `a turnstream server is running at ${url}`), runningAt: url }
  }
  const fix = `Stop it (find it with: ss -ltnp 'sport = :${port}'), or pass --port`
  return { check: fail(name, `${where} is used by another program`, fix) }
}

async function listenError(host: string, port: number): Promise<string | undefined> {
  const server = createServer()
  try {
    server.listen({ host, port, exclusive: true })
    await once(server, 'listening')
    server.close()
    await once(server, 'close')
    return undefined
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : messageOf(error)
  }
}

/** Where a server that listens everywhere is found from here. */
function localAddress(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

async function isGateway(url: string, clock: Clock): Promise<boolean> {
  const answer = await call({ url: `${url}${ROUTES.health}`, clock })
  if ('reason' in answer || answer.status !== 200) return false
  const health = parseJsonSafe(answer.body)
  // Others have such a route, too.
  return isRecord(health) && health['status'] === 'ok' && answer.headers.has(HEADERS.requestId)
}

/** What another clock said at a moment of ours. */
export interface ClockReading {
  readonly source: string
  readonly theirs: number
  /** By our clock, from the question to the answer. */
  readonly from: number
  readonly to: number
  /** How coarse it is: the `date` of an answer has whole seconds. */
  readonly stepMs: number
}

const SKEW_WARN_MS = 2000
const SKEW_FAIL_MS = 30_000

/**
 * Compares our clock with others. Where they differ among themselves the nearest to ours counts: two clocks are
 * not likely to be wrong by the same time.
 */
export function clockCheck(readings: readonly ClockReading[]): Check {
  const name = 'clock'
  const [nearest] = readings
    .map((reading) => ({ source: reading.source, skew: skewOf(reading) }))
    .toSorted((a, b) => Math.abs(a.skew) - Math.abs(b.skew))
  if (nearest === undefined) return skipped(name, 'no time source to compare with')
  const { source, skew } = nearest
  const ms = Math.abs(skew)
  if (ms <= SKEW_WARN_MS) return ok(name, `agrees with ${source}`)
  const found = `${Math.round(ms / 1000)} s ${skew > 0 ? 'ahead of' : 'behind'} ${source}`
  const fix = 'Enable time synchronization: timedatectl set-ntp true'
  return ms > SKEW_FAIL_MS ? fail(name, found, fix) : warn(name, found, fix)
}

/** How far ours is ahead, in the best case: their clock was read at some moment between `from` and `to`. */
function skewOf({ theirs, from, to, stepMs }: ClockReading): number {
  const latest = theirs + stepMs
  if (from > latest) return from - latest
  if (to < theirs) return to - theirs
  return 0
}

/** The reading in the headers of an answer. */
export function readClock(
  source: string,
  { headers, askedAt, answeredAt }: Pick<Answer, 'headers' | 'askedAt' | 'answeredAt'>,
): ClockReading | undefined {
  const theirs = Date.parse(headers.get('date') ?? '')
  if (Number.isNaN(theirs)) return undefined
  return { source, theirs, from: askedAt, to: answeredAt, stepMs: 1000 }
}
