import { createHash, type Hash } from 'node:crypto'
import type { Clock } from '@turnstream/core/internal/async/clock'
import type { TurnLog, TurnRecord } from '@turnstream/core/internal/log/turn-log'
import { HEADERS, ROUTES, SESSION_HEADERS } from '@turnstream/core/internal/protocol/names'
import type { Context } from 'hono'
import { onSent } from './client-close.ts'
import type { ErrorHandler, GatewayEnv, TenantSpace } from './context.ts'
import type { GatewayMetrics } from './metrics/gateway-metrics.ts'
import { once } from './once.ts'

/*
 * After a network cut, some clients of vendors' APIs send the same request again. It gets the turn whose reader left,
 * instead of a second one. Every departure is a note in the store, under a hash of path, body and the headers that name
 * the client, so that it may be found by another instance and is used once.
 *
 * A client that lost its network closes nothing: it still seems to read, or to have read everything. But an agent never
 * repeats a request whose answer it got. So each turn of an agent's session is a note, too. An agent may add the items
 * that it has received to the request that it repeats. Once the turn has ended, it is used once for each number of items,
 * and only for growing ones.
 */

const PATHS: readonly string[] = [ROUTES.chatCompletions, ROUTES.responses, ROUTES.messages]

/** As many as a key holds. */
const MAX_TAKEN = 16

/** Of the requests that one may repeat. Each comparison reads a turn. */
const MAX_COMPARED = 4

const KEEP_MS = 120_000

/** Longer than nearly every turn. */
const SESSION_NOTE_MS = 60 * 60 * 1000

/** How many items the client of a session's turn had when it got the rest after the end, or -1; and the turn's id. */
const SESSION_NOTE = /^session (-?\d+) (.+)$/

/** Finds the ids of the last `count` items of a request in what a turn has finished. Undefined if they differ. */
export type FindReceived = (
  turn: TurnRecord,
  count: number,
) => Promise<ReadonlySet<string> | undefined>

export interface RepeatedRequest {
  /** Hashes of the request: whole, and then without its last item, its last two, and so on. */
  readonly keys: readonly string[]
  /** Whether an agent sent it, in a session. */
  readonly isInSession: boolean
  /** Missing if there is only one key. */
  readonly findReceived?: FindReceived
}

/** A request that may be repeated, while its body is read. */
export interface RequestReading {
  readonly isInSession: boolean
  /** Takes the body, unless the route makes the keys. */
  readonly hash: Hash | undefined
}

export interface Rejoined {
  readonly turn: TurnRecord
  /** The key of the earlier request. */
  readonly key: string
  /** The ids of items that the client has received. */
  readonly received: ReadonlySet<string>
}

interface ReattachmentOptions {
  /** How long a turn can be joined after its client left: two minutes by default, 0 for never. */
  readonly keepMs: number | undefined
  readonly clock: Pick<Clock, 'now'>
  readonly metrics: Pick<GatewayMetrics, 'reattached'>
  readonly onError: ErrorHandler
}

export class Reattachment {
  readonly #options: ReattachmentOptions
  readonly #keepMs: number
  /** Notes being written, by tenant and key. */
  readonly #pending = new Map<string, Promise<unknown>>()

  constructor(options: ReattachmentOptions) {
    this.#options = options
    this.#keepMs = options.keepMs ?? KEEP_MS
  }

  /** Starts to read a request that may be repeated. Undefined if it always gets a new turn. */
  startRequest(c: Context<GatewayEnv>): RequestReading | undefined {
    if (this.#keepMs === 0 || c.req.method !== 'POST') return undefined
    const header = (name: string) => c.req.header(name)
    const path = PATHS.find((each) => c.req.path.endsWith(each))
    if (path === undefined || header(HEADERS.idempotencyKey) !== undefined) return undefined
    // The last one cancels its turn, which another client may read.
    if (header(HEADERS.reattach) === 'no' || header(HEADERS.cancelOnDisconnect) === 'true') {
      return undefined
    }
    const isInSession = SESSION_HEADERS.some((name) => Boolean(header(name)))
    // The route hashes the items of a session one by one.
    const isHashedByItem = isInSession && path === ROUTES.responses
    return { isInSession, hash: isHashedByItem ? undefined : newHash(c, path) }
  }

  /** Finds the turn of the same request before, unless it failed, was cancelled or is gone. */
  async find(space: TenantSpace, request: RepeatedRequest): Promise<Rejoined | undefined> {
    const { keys } = request
    for (const key of keys) await this.#pending.get(`${space.tenant} ${key}`)
    const notes = await space.log.keyedRecords.read(keys)
    const counts = [...keys.keys()].filter((count) => notes[count] !== undefined)
    for (const count of counts.slice(0, MAX_COMPARED)) {
      const found = await this.#findWithout(space, request, count)
      if (found === undefined) continue
      this.#options.metrics.reattached()
      return found
    }
    return undefined
  }

  /** The same for a request without its last `count` items, which the turn must have. */
  async #findWithout(
    space: TenantSpace,
    { keys, findReceived }: RepeatedRequest,
    count: number,
  ): Promise<Rejoined | undefined> {
    const { log } = space
    const key = keys[count] ?? ''
    for (let taken = 0; taken < MAX_TAKEN; taken++) {
      const [note] = await log.keyedRecords.read([key])
      if (note === undefined) return undefined
      const [, before, turnId = note] = SESSION_NOTE.exec(note) ?? []
      const isOfSession = before !== undefined
      const turn = await this.#joinable(log, turnId, isOfSession)
      if (turn === undefined) {
        await log.keyedRecords.consume(key)
        continue
      }
      const hasEnded = turn.endedAt !== undefined
      if (hasEnded && count <= Number(before ?? -1)) return undefined
      const received = count === 0 ? NOTHING : await findReceived?.(turn, count)
      if (received === undefined) return undefined
      const found = { turn, key, received }
      if (isOfSession && !hasEnded) return found
      if ((await log.keyedRecords.consume(key)) !== note) continue
      if (isOfSession) this.#addNote(space, key, `session ${count} ${turnId}`, this.#keepMs)
      return found
    }
    return undefined
  }

  async #joinable(
    log: TurnLog,
    turnId: string,
    isOfSession: boolean,
  ): Promise<TurnRecord | undefined> {
    const turn = await log.getTurn(turnId)
    if (turn === undefined || !isJoinable(turn)) return undefined
    const { endedAt = Infinity } = turn
    return isOfSession && endedAt + this.#keepMs <= this.#options.clock.now() ? undefined : turn
  }

  /** Records the turn of a request in a session. */
  start(space: TenantSpace, { keys: [key], isInSession }: RepeatedRequest, turnId: string): void {
    if (!isInSession || key === undefined) return
    this.#addNote(space, key, `session -1 ${turnId}`, SESSION_NOTE_MS)
  }

  /** Records that a reader of the turn left. `key` is the one of the request that started it. */
  leave(space: TenantSpace, key: string, turnId: string): void {
    this.#addNote(space, key, turnId, this.#keepMs)
  }

  #addNote({ tenant, log }: TenantSpace, key: string, note: string, ttlMs: number): void {
    const name = `${tenant} ${key}`
    const adding = log.keyedRecords
      .add(key, note, ttlMs)
      .catch((error: unknown) => this.#options.onError(error, {}))
    const all = Promise.all([this.#pending.get(name), adding]).then(() => {
      if (this.#pending.get(name) === all) this.#pending.delete(name)
    })
    this.#pending.set(name, all)
  }

  /** Resolves when everything so far is recorded. */
  async idle(): Promise<void> {
    await Promise.all(this.#pending.values())
  }
}

const NOTHING: ReadonlySet<string> = new Set()

/** Headers that tell the clients of a tenant apart: a thread, session, chat or user, and the key. */
const CLIENT_HEADER =
  /(?:^|[-_])(?:(?:session|thread|conversation|chat|user)(?:[-_](?:affinity|id|name))?|email|api[-_]key)$|^authorization$/

/** Starts a hash with what is the same in every repetition by one client. */
export function newHash(c: Context<GatewayEnv>, label: string): Hash {
  const named = Object.entries(c.req.header()).filter(([name]) => CLIENT_HEADER.test(name))
  const client = named.toSorted(([a], [b]) => (a < b ? -1 : 1))
  return createHash('sha256').update(`${label}\n${JSON.stringify(client)}\n`)
}

function isJoinable({ status, expired, cancelReason }: TurnRecord): boolean {
  if (expired || cancelReason !== undefined) return false
  return status === 'in_progress' || status === 'complete'
}

/** The client of one request, which leaves if it disconnects before the end of the answer. */
export class RequestClient {
  /** Whether all of the answer was written. An answer that is not streamed is written at once. */
  isServed = (): boolean => true
  readonly leave: () => void

  constructor(c: Context<GatewayEnv>, onLeave: () => void) {
    this.leave = once(onLeave)
    const outgoing = c.env?.outgoing
    if (outgoing === undefined) c.req.raw.signal.addEventListener('abort', this.leave)
    else {
      onSent(outgoing, (isSent) => {
        if (!isSent || !this.isServed()) this.leave()
      })
    }
  }
}
