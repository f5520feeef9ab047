import { once } from 'node:events'
import { createServer } from 'node:net'
import { getHeapStatistics } from 'node:v8'
import { type Check, checkNamed, isAtLeast } from '@turnstream/conformance/internal/endpoint/check'
import { type Answer, call } from '@turnstream/conformance/internal/endpoint/http'
import type { Clock } from '@turnstream/core/internal/async/clock'
import { parseJsonObject } from '@turnstream/core/internal/protocol/json'
import { HEADERS, ROUTES } from '@turnstream/core/internal/protocol/names'
import { openFilesLimit, RESERVED_FILES } from '../../server/limits/port-limits.ts'
import { errorCode } from '../command.ts'
import type { Settings } from '../serve/settings.ts'
import { megabytes, messageOf } from '../text.ts'

export const thisMachine = () => ({
  nodeVersion: process.versions.node,
  /** Available memory, with the limit of a container, and the heap limit of the engine. */
  freeBytes: process.availableMemory(),
  heapBytes: getHeapStatistics().heap_size_limit,
  /** The open file limit; undefined when the system does not report it, Infinity when unlimited. */
  openFiles: openFilesLimit(),
})

export type Machine = ReturnType<typeof thisMachine>

/** As in package.json; a test compares them. */
const LEAST_NODE = [20, 19] as const

export function nodeCheck({ nodeVersion }: Machine): Check {
  const { ok, fail } = checkNamed('node')
  if (isAtLeast(nodeVersion, LEAST_NODE)) return ok(nodeVersion)
  return fail(nodeVersion, `Install Node ${LEAST_NODE.join('.')} or newer: nvm install --lts`)
}

// docs/operations.md#sizing: a process starts at about 90 MB.
const START_BYTES = 90e6
// A connection with its buffers and one page of a log.
const CONNECTION_BYTES = 20_000
const BYTES_PER_CHAR = 2

export function memoryCheck(machine: Machine, settings: Settings, keys: number): Check {
  const { ok, warn, fail } = checkNamed('memory')
  const { freeBytes, heapBytes } = machine
  const available = Math.min(freeBytes, heapBytes)
  // The worst case that the limits allow; Infinity if unbounded.
  const turns = settings.maxRunningTurns * Math.max(1, keys)
  const turnBytes = settings.maxTurnChars * BYTES_PER_CHAR + settings.maxHistoryBytes
  const needed = START_BYTES + turns * turnBytes + settings.maxConnections * CONNECTION_BYTES
  const shown = `${megabytes(available)} available`
  if (available < START_BYTES) {
    return fail(shown, `Provide at least ${megabytes(START_BYTES)}; see: free -m`)
  }
  if (needed === Number.POSITIVE_INFINITY) {
    return ok(`${shown}; unlimited turns or connections have no bound`)
  }
  const found = `${shown}; the limits allow for ${megabytes(needed)}`
  if (needed <= available) return ok(found)
  const more =
    heapBytes <= freeBytes
      ? `NODE_OPTIONS=--max-old-space-size=${Math.ceil(needed / 2 ** 20)}`
      : 'more memory'
  const limits = '--max-running-turns, --max-turn-chars, --max-history-bytes or --max-connections'
  return warn(found, `Provide ${more}, or lower ${limits}`)
}

const LEAST_FILES = 256

export function filesCheck({ openFiles }: Machine, { maxConnections }: Settings): Check {
  const { ok, skipped, warn, fail } = checkNamed('open files')
  if (openFiles === undefined) return skipped('the system does not report the limit')
  const isUnlimited = maxConnections === Number.POSITIVE_INFINITY
  const needed = isUnlimited ? LEAST_FILES : maxConnections + RESERVED_FILES
  const connections = isUnlimited ? 'unlimited connections' : `${maxConnections} connections`
  const found = `${openFiles} at a time, for ${connections}`
  if (openFiles >= needed) return ok(found)
  const fix = `Raise the limit (ulimit -n ${needed}; LimitNOFILE=${needed} in systemd), or lower --max-connections`
  return openFiles < LEAST_FILES ? fail(found, fix) : warn(found, fix)
}

/** Opens and closes the port, or finds out who uses it. A turnstream server may be `runningAt` it already. */
export async function checkPort({ host, port }: Settings, clock: Clock) {
  const { ok, fail } = checkNamed('port')
  const where = `${host}:${port}`
  if (port === 0) return { check: ok(`any free port on ${host}`) }
  const code = await listenError(host, port)
  if (code === undefined) return { check: ok(`${where} is free`) }
  if (code !== 'EADDRINUSE') {
    const fix =
      code === 'EACCES'
        ? 'Choose one from 1024 on with --port <n>: those below are for root'
        : 'Choose a local address with --host; list them with: ip addr'
    return { check: fail(`${where}: ${code}`, fix) }
  }
  const url = `http://${localAddress(host)}:${port}`
  if (await isGateway(url, clock)) {
    return { check: ok(`a turnstream server is running at ${url}`), runningAt: url }
  }
  const fix = `Stop it (find it with: ss -ltnp 'sport = :${port}'), or pass --port`
  return { check: fail(`${where} is used by another program`, fix) }
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
    return errorCode(error) ?? messageOf(error)
  }
}

/** The local URL of a server that listens on all addresses. */
function localAddress(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

async function isGateway(url: string, clock: Clock): Promise<boolean> {
  const answer = await call({ url: `${url}${ROUTES.health}`, clock })
  if ('reason' in answer || answer.status !== 200) return false
  const isOk = parseJsonObject(answer.body)?.['status'] === 'ok'
  // Other servers also have this route.
  return isOk && answer.headers.has(HEADERS.requestId)
}

/** A reading of another clock, with our time. */
export interface ClockReading {
  readonly source: string
  readonly theirs: number
  /** Our time before the request and after the response. */
  readonly from: number
  readonly to: number
  /** Its resolution: a `date` header has whole seconds. */
  readonly stepMs: number
}

const SKEW_WARN_MS = 2000
const SKEW_FAIL_MS = 30_000

/** Compares our clock with the nearest of the others: two are unlikely to be wrong by the same amount. */
export function clockCheck(readings: readonly ClockReading[]): Check {
  const { ok, skipped, warn, fail } = checkNamed('clock')
  const [nearest] = readings
    .map((reading) => ({ source: reading.source, skew: skewOf(reading) }))
    .toSorted((a, b) => Math.abs(a.skew) - Math.abs(b.skew))
  if (nearest === undefined) return skipped('no time source to compare with')
  const { source, skew } = nearest
  const ms = Math.abs(skew)
  if (ms <= SKEW_WARN_MS) return ok(`agrees with ${source}`)
  const found = `${Math.round(ms / 1000)} s ${skew > 0 ? 'ahead of' : 'behind'} ${source}`
  const fix = 'Enable time synchronization: timedatectl set-ntp true'
  return ms > SKEW_FAIL_MS ? fail(found, fix) : warn(found, fix)
}

/** The least our clock can be ahead: theirs was read at some time between `from` and `to`. */
function skewOf({ theirs, from, to, stepMs }: ClockReading): number {
  const latest = theirs + stepMs
  if (from > latest) return from - latest
  if (to < theirs) return to - theirs
  return 0
}

export function readClock(
  source: string,
  { headers, askedAt, answeredAt }: Pick<Answer, 'headers' | 'askedAt' | 'answeredAt'>,
): ClockReading | undefined {
  const theirs = Date.parse(headers.get('date') ?? '')
  if (Number.isNaN(theirs)) return undefined
  return { source, theirs, from: askedAt, to: answeredAt, stepMs: 1000 }
}
