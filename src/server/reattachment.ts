import { createHash, type Hash } from 'node:crypto'
import type { Context } from 'hono'
import type { Clock } from '../async/clock.ts'
import type { TurnRecord } from '../log/turn-log.ts'
import { isRecord, parseJsonSafe } from '../protocol/json.ts'
import { HEADERS, ROUTES, SESSION_HEADERS } from '../protocol/names.ts'
import { onSent } from './client-close.ts'
import type { ErrorHandler, GatewayEnv, TenantSpace } from './context.ts'

/*
 * After a network cut, some clients of vendors' APIs send the same request again. It gets the turn whose reader left,
 * instead of a second one. Every departure is a note in the store, under a hash of path and body, so that it may be
 * found by another instance and is used once.
 *
 * A client that lost its network closes nothing: it still seems to read, or to have read everything. But an agent never
 * repeats a request whose answer it got. So each turn of an agent's session is a note, too. Once the turn has ended, it
 * is used once.
 */

const PATHS: readonly string[] = [ROUTES.chatCompletions, ROUTES.responses, ROUTES.messages]

/** As many as a key holds. */
const MAX_TAKEN = 16

const KEEP_MS = 120_000

/** Longer than nearly every turn. */
const SESSION_NOTE_MS = 60 * 60 * 1000

/** A request that may be repeated: the hash of its path and body, and of its session if it names one. */
export interface RepeatedRequest {
  readonly hash: string
  readonly session?: string
}

interface ReattachmentMetrics {
  /** Counts a request that got the turn of an earlier one. */
  reattached(): void
}

interface ReattachmentOptions {
  /** How long a turn can be joined after its client left: two minutes by default, 0 for never. */
  readonly keepMs: number | undefined
  readonly clock: Pick<Clock, 'now'>
  readonly metrics: ReattachmentMetrics
  readonly onError: ErrorHandler
}

export class Reattachment {
  readonly #keepMs: number
  readonly #clock: Pick<Clock, 'now'>
  readonly #metrics: ReattachmentMetrics
  readonly #onError: ErrorHandler
  /** Notes being written, by tenant and key. */
  readonly #pending = new Map<string, Promise<unknown>>()

  constructor({ keepMs = KEEP_MS, clock, metrics, onError }: ReattachmentOptions) {
    this.#keepMs = keepMs
    this.#clock = clock
    this.#metrics = metrics
    this.#onError = onError
  }

  /** Starts the hash of a request body. Undefined if the request always gets a new turn. */
  startHash(c: Context<GatewayEnv>): Hash | undefined {
    if (this.#keepMs === 0 || c.req.method !== 'POST') return undefined
    const path = PATHS.find((each) => c.req.path.endsWith(each))
    if (path === undefined || c.req.header(HEADERS.idempotencyKey) !== undefined) return undefined
    if (c.req.header(HEADERS.reattach) === 'no') return undefined
    return createHash('sha256').update(`${path}\n`)
  }

  /** Ends the hash of the bytes of a body. Requires bounded nesting. */
  endHash(c: Context<GatewayEnv>, bytes: Hash, text: string): RepeatedRequest {
    const sorted = c.req.path.endsWith(ROUTES.responses) ? sortMetadata(text) : undefined
    const body = sorted === undefined ? bytes : createHash('sha256').update(`sorted\n${sorted}`)
    const session = SESSION_HEADERS.map((name) => c.req.header(name)).find(Boolean)
    const inSession = session && body.copy().update(`\nsession ${session}`).digest('base64url')
    return { hash: body.digest('base64url'), ...(inSession && { session: inSession }) }
  }

  /** Finds the turn of the same request before, unless it failed, was cancelled or is gone. */
  async find(space: TenantSpace, request: RepeatedRequest): Promise<TurnRecord | undefined> {
    const { hash, session } = request
    const left = await this.#takeLeft(space, hash)
    const turn = left ?? (session === undefined ? left : await this.#findUnread(space, session))
    if (turn !== undefined) this.#metrics.reattached()
    return turn
  }

  /** Takes a turn that a reader left. */
  async #takeLeft({ tenant, log }: TenantSpace, hash: string): Promise<TurnRecord | undefined> {
    await this.#pending.get(`${tenant} ${hash}`)
    for (let count = 0; count < MAX_TAKEN; count++) {
      const turnId = await log.takeNote(hash)
      if (turnId === undefined) return undefined
      const turn = await log.getTurn(turnId)
      if (turn !== undefined && isJoinable(turn)) return turn
    }
    return undefined
  }

  /** Finds a turn that runs, or takes one that has just ended. */
  async #findUnread(
    { tenant, log }: TenantSpace,
    session: string,
  ): Promise<TurnRecord | undefined> {
    await this.#pending.get(`${tenant} ${session}`)
    const [turnId] = await log.readNotes([session])
    const turn = turnId === undefined ? undefined : await log.getTurn(turnId)
    if (turn === undefined || !isJoinable(turn)) return undefined
    if (turn.endedAt === undefined) return turn
    if (turn.endedAt + this.#keepMs <= this.#clock.now()) return undefined
    return (await log.takeNote(session)) === turnId ? turn : undefined
  }

  /** Records the turn of a request that names its session. */
  start(space: TenantSpace, { session }: RepeatedRequest, turnId: string): void {
    if (session !== undefined) this.#addNote(space, session, turnId, SESSION_NOTE_MS)
  }

  /** Records that a reader of the turn left. */
  leave(space: TenantSpace, { hash }: RepeatedRequest, turnId: string): void {
    this.#addNote(space, hash, turnId, this.#keepMs)
  }

  #addNote({ tenant, log }: TenantSpace, key: string, turnId: string, ttlMs: number): void {
    const name = `${tenant} ${key}`
    const adding = log
      .addNote(key, turnId, ttlMs)
      .catch((error: unknown) => this.#onError(error, {}))
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

const METADATA = '"client_metadata":'
const MAX_METADATA_CHARS = 16_384
const MAX_BRACES = 64

/** codex writes the members of `client_metadata` in another order each time. Undefined if a body has none. */
function sortMetadata(text: string): string | undefined {
  const at = text.indexOf(`${METADATA}{`)
  if (at < 0) return undefined
  const start = at + METADATA.length
  let end = start
  // A brace may be part of a text.
  for (let braces = 0; braces < MAX_BRACES; braces++) {
    end = text.indexOf('}', end) + 1
    if (end === 0 || end - start > MAX_METADATA_CHARS) return undefined
    const members = parseJsonSafe(text.slice(start, end))
    if (!isRecord(members)) continue
    const sorted = Object.entries(members).toSorted(([a], [b]) => (a < b ? -1 : 1))
    return `${text.slice(0, start)}${JSON.stringify(sorted)}${text.slice(end)}`
  }
  return undefined
}

function isJoinable({ status, expired, cancelReason }: TurnRecord): boolean {
  if (expired || cancelReason !== undefined) return false
  return status === 'in_progress' || status === 'complete'
}

/** The client of one request, which leaves if it disconnects before the end of the answer. */
export class AnswerReader {
  /** Whether all of the answer was written. An answer that is not streamed is written at once. */
  isServed = (): boolean => true
  readonly #onLeave: () => void
  #hasLeft = false

  constructor(c: Context<GatewayEnv>, onLeave: () => void) {
    this.#onLeave = onLeave
    const outgoing = c.env?.outgoing
    if (outgoing === undefined) c.req.raw.signal.addEventListener('abort', () => this.leave())
    else {
      onSent(outgoing, (isSent) => {
        if (!isSent || !this.isServed()) this.leave()
      })
    }
  }

  leave(): void {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.#onLeave()
  }
}
