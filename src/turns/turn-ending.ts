import { type Clock, monotonicNow } from '../async/clock.ts'
import { pause } from '../async/pause.ts'
import type { Lease, TurnLog } from '../log/turn-log.ts'
import { ERROR_CODES, type ErrorCode, hasCode, TurnstreamError } from '../protocol/errors.ts'
import type { ErrorObject, StreamEventPayload } from '../protocol/stream-event.ts'
import { type Usage, usageSchema } from '../protocol/stream-event.ts'
import type { RoundEnd } from './transcript.ts'
import type { TurnOutcome } from './turn-observer.ts'

interface TurnIds {
  readonly turnId: string
  readonly runId: string
}

export type Terminal = RoundEnd

/** After these a call may be cut off in the middle, or was never meant. */
const UNRELIABLE: ReadonlySet<unknown> = new Set(['length', 'content_filter', 'refusal'])

/** Said by providers that made calls none the less. */
const VAGUE: ReadonlySet<unknown> = new Set([undefined, null, 'stop', 'other'])

/** Whether the calls of a round may be run. */
export function isReliable(end: RoundEnd): boolean {
  if (end.type !== 'response_done' || end.status !== 'complete') return false
  return !UNRELIABLE.has(end.finish_reason)
}

/** The end of a turn as its last round ended; with calls that are left to the client, it is for them. */
export function naturalEnd(
  end: RoundEnd,
  { turnId, runId }: TurnIds,
  usage: Usage | undefined,
  hasForClient: boolean,
): Terminal {
  switch (end.type) {
    case 'response_error':
      return { ...end, response_id: runId, ...(usage && { usage }) }
    case 'turn_aborted_by_user':
      return { ...end, turn_id: turnId, ...(usage && { usage }) }
    case 'response_done': {
      const { finish_reason: reason, ...rest } = end
      const finish_reason = hasForClient && VAGUE.has(reason) ? 'tool_calls' : (reason ?? null)
      return { ...rest, response_id: runId, finish_reason, ...(usage && { usage }) }
    }
  }
}

/** The end of a turn that was stopped. What it had cost by then has to be paid. */
export function stoppedEnd(
  reason: EndReason,
  { turnId, runId }: TurnIds,
  usage: Usage | undefined,
): Terminal {
  const spent = usage && { usage }
  return reason.kind === 'cancelled'
    ? { type: 'turn_aborted_by_user', turn_id: turnId, reason: reason.reason, ...spent }
    : { type: 'response_error', response_id: runId, error: reason.error, ...spent }
}

/** What readers are told of an error: what is not ours may hold anything, and stays with the operator. */
export function errorObject(error: unknown): ErrorObject {
  if (error instanceof TurnstreamError) return { code: error.code, message: error.message }
  const code: ErrorCode = 'INTERNAL_ERROR'
  return { code, message: ERROR_CODES[code].summary }
}

export function failed(code: ErrorCode, detail: string): EndReason {
  return { kind: 'failed', error: errorObject(new TurnstreamError(code, detail)) }
}

interface TurnTimes {
  readonly now: number
  /** When the turn was submitted. */
  readonly since: number
  /** When it was asked to stop, if it was. */
  readonly cancelledAt: number | undefined
}

/** The end of a turn for those who count; a turn that got none was lost or deleted. */
export function outcomeOf(
  end: Terminal | undefined,
  times: TurnTimes,
  isDeleted = false,
): TurnOutcome {
  const { now, since, cancelledAt } = times
  const durationMs = now - since
  if (end === undefined) return { status: isDeleted ? 'deleted' : 'lost', durationMs }
  const known = { durationMs, ...(end.usage && { usage: end.usage }) }
  switch (end.type) {
    case 'response_error':
      return { ...known, status: 'failed', code: end.error.code }
    case 'turn_aborted_by_user':
      return {
        ...known,
        status: 'aborted',
        ...(cancelledAt !== undefined && { cancelMs: now - cancelledAt }),
      }
    case 'response_done':
      return { ...known, status: 'completed' }
  }
}

/**
 * What readers are told of a provider that threw, although it should not. Messages of ours are made to be
 * read by anybody; what others throw may hold anything, and stays with the operator.
 */
export function providerFault(error: unknown): ErrorObject {
  const inner = hasCode(error, 'STREAM_ERROR') ? error.cause : error
  if (hasCode(inner, 'TIMEOUT')) return { code: 'UPSTREAM_TIMEOUT', message: inner.message }
  if (inner instanceof TurnstreamError) return { code: inner.code, message: inner.message }
  return { code: 'STREAM_ERROR', message: 'The stream of the provider failed' }
}

/** A terminal event must fit into an append whatever its provider put there. */
const MAX_END_CHARS = 65_536
/** Every open item of a turn may get the error of the turn. */
const MAX_MESSAGE_CHARS = 4000
const MAX_WORD_CHARS = 200

/** What is ours, or counted as text, by the type of the payload. */
const COUNTED_ELSEWHERE = {
  item_start: ['type', 'item_id', 'item_type', 'origin', 'initial_content', 'arguments'],
  item_delta: ['type', 'item_id', 'delta_content'],
  item_done: ['type', 'item_id', 'final_item'],
  item_error: ['type', 'item_id'],
  item_cancelled: ['type', 'item_id'],
} as const
const ITEM_FIELDS = ['type', 'id', 'origin', 'success', 'content', 'arguments', 'output']

/**
 * How much an event adds to the log besides the text of its item and what is ours: names, call ids,
 * metadata, errors and unknown fields, as JSON. Throws for what JSON cannot say.
 */
export function extraChars(payload: StreamEventPayload<keyof typeof COUNTED_ELSEWHERE>): number {
  const chars = jsonChars(payload, COUNTED_ELSEWHERE[payload.type])
  if (payload.type !== 'item_done') return chars
  return chars + jsonChars(payload.final_item, ITEM_FIELDS)
}

/** Without the braces: an event without other fields costs nothing. */
function jsonChars(fields: object, except: readonly string[]): number {
  const counted = Object.entries(fields).filter(([name]) => !except.includes(name))
  return JSON.stringify(Object.fromEntries(counted)).length - 2
}

/** The end of a round with what of it can be stored; `isCut` when something was dropped. */
export function boundEnd(end: RoundEnd): { readonly end: RoundEnd; readonly isCut: boolean } {
  const error = end.type === 'response_error' ? boundError(end.error) : undefined
  const isLongError = error !== undefined && error !== (end as { error?: unknown }).error
  if (!isLongError && charsOf(end) <= MAX_END_CHARS) return { end, isCut: false }
  return { end: knownFields(end), isCut: true }
}

function knownFields(end: RoundEnd): RoundEnd {
  const usage = end.usage && { usage: knownCounts(end.usage) }
  switch (end.type) {
    case 'response_done': {
      const { type, response_id, status, finish_reason, provider_finish_reason: word } = end
      return {
        type,
        response_id: clip(response_id, MAX_WORD_CHARS),
        status,
        finish_reason: finish_reason == null ? null : clip(finish_reason, MAX_WORD_CHARS),
        ...(word != null && { provider_finish_reason: clip(word, MAX_WORD_CHARS) }),
        ...usage,
      }
    }
    case 'response_error': {
      const { type, response_id, error } = end
      const response = clip(response_id, MAX_WORD_CHARS)
      return { type, response_id: response, error: boundError(error), ...usage }
    }
    case 'turn_aborted_by_user': {
      const { type, turn_id, reason } = end
      const cut = reason === undefined ? {} : { reason: clip(reason, MAX_MESSAGE_CHARS) }
      return { type, turn_id: clip(turn_id, MAX_WORD_CHARS), ...cut, ...usage }
    }
  }
}

/** The error itself when it is short. */
export function boundError(error: ErrorObject): ErrorObject {
  const { code, message } = error
  if (charsOf(error) <= MAX_MESSAGE_CHARS) return error
  return { code: clip(code, MAX_WORD_CHARS), message: clip(message, MAX_MESSAGE_CHARS) }
}

/** The error or reason with which a turn is stopped stands in the end of each of its items. */
function boundReason(reason: string): string {
  return clip(reason, MAX_MESSAGE_CHARS)
}

function knownCounts(usage: Usage): Usage {
  const names = Object.keys(usageSchema.shape)
  return Object.fromEntries(Object.entries(usage).filter(([name]) => names.includes(name))) as Usage
}

function clip(text: string, chars: number): string {
  return text.length <= chars ? text : `${text.slice(0, chars)}…`
}

function charsOf(value: object): number {
  try {
    return JSON.stringify(value).length
  } catch {
    return Infinity // what JSON cannot say cannot be stored
  }
}

/**
 * Why a turn does not go on. `cancelled`: somebody asked for it. `failed`: a cap was reached, or the server shuts
 * down. `lost`: the turn is not ours to write any more.
 */
export type StopReason =
  | { readonly kind: 'cancelled'; readonly reason: string }
  | { readonly kind: 'failed'; readonly error: ErrorObject }
  | { readonly kind: 'lost'; readonly error: unknown }

/** Why a turn that is ours ends early. */
export type EndReason = Exclude<StopReason, { kind: 'lost' }>

export interface TurnControlOptions {
  readonly log: TurnLog
  readonly lease: Lease
  readonly leaseMs: number
  /** When the lease was asked for, in monotonic time. */
  readonly since: number
  readonly maxDurationMs: number
  readonly clock: Clock
  /** For how long the store has left a write unanswered. */
  readonly stalledMs: () => number
  /** Called when somebody cancelled the turn. */
  readonly onCancelled: () => void
  /** Called once, when the turn is lost. */
  readonly onLost: (error: unknown) => void
}

/** A lease is renewed when a third of it has passed; what failed is tried again sooner. */
const RENEWALS_PER_LEASE = 3
const RETRIES_PER_LEASE = 12

// A cancel is to be noticed within a second, also by an owner whose store stumbled.
const ASK_AGAIN_MS = 250

/**
 * Decides how long a turn goes on. The first reason to stop stays, except that a turn may be lost at any time:
 *
 *     | state    | stop(reason) | lose(error) | release() |
 *     |----------|--------------|-------------|-----------|
 *     | running  | stopping     | lost        | over      |
 *     | stopping | –            | lost        | over      |
 *     | lost     | –            | –           | over      |
 *     | over     | –            | –           | –         |
 *
 * What stops a turn: its time limit, a cancel, and whoever calls `stop`. What loses it: another owner, a store that
 * neither renews the lease nor answers a write for as long as the lease lasts, deletion, and a writer that failed.
 */
export class TurnControl {
  readonly #options: TurnControlOptions
  readonly #controller = new AbortController()
  #reason: StopReason | undefined
  #isOver = false
  /** When the store was asked that last said yes: by our clock the lease lasts from then at least. */
  #heldSince: number
  /** When the timer is due. */
  #ringsAt = 0
  #lastError: unknown
  #isRenewing = false
  #cancelTimer: () => void
  readonly #cancelLimit: () => void

  constructor(options: TurnControlOptions) {
    const { clock, maxDurationMs, since } = options
    this.#options = options
    this.#heldSince = since
    this.#cancelTimer = this.#setTimer(RENEWALS_PER_LEASE)
    this.#cancelLimit = clock.after(maxDurationMs, () => {
      this.stop(failed('TURN_TIME_LIMIT', `${maxDurationMs} ms are allowed`))
    })
    void this.#followCancel()
  }

  /** Aborts when the turn is stopped, lost or over. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get reason(): StopReason | undefined {
    return this.#reason
  }

  get isLost(): boolean {
    return this.#reason?.kind === 'lost'
  }

  stop(reason: EndReason): void {
    if (this.#isOver || this.#reason !== undefined) return
    this.#reason = bound(reason)
    this.#controller.abort()
  }

  lose(error: unknown): void {
    if (this.#isOver || this.isLost) return
    this.#reason = { kind: 'lost', error }
    this.#cancelTimer()
    this.#controller.abort()
    this.#options.onLost(error)
  }

  /** The provider is done: the time limit is kept. */
  endTimeLimit(): void {
    this.#cancelLimit()
  }

  /** The turn is over, and with it everything that was done for it. */
  release(): void {
    this.#isOver = true
    this.#cancelTimer()
    this.#cancelLimit()
    this.#controller.abort()
  }

  async #followCancel(): Promise<void> {
    const { log, lease, clock } = this.#options
    while (!this.signal.aborted) {
      try {
        const reason = await log.cancelled(lease, this.signal)
        this.#options.onCancelled()
        return this.stop({ kind: 'cancelled', reason })
      } catch (error) {
        if (hasCode(error, 'LEASE_LOST')) return this.lose(error)
      }
      // A store that stays away is for the renewal of the lease to judge.
      await pause(ASK_AGAIN_MS, clock, this.signal)
    }
  }

  /** Rings when it is time to renew the lease, and when it has run out. */
  #setTimer(rings: number): () => void {
    const { clock, leaseMs } = this.#options
    const now = monotonicNow(clock)
    const waitMs = Math.max(0, Math.min(leaseMs / rings, this.#heldSince + leaseMs - now))
    this.#ringsAt = now + waitMs
    return clock.after(waitMs, () => this.#ring())
  }

  #ring(): void {
    const { clock, leaseMs, lease, stalledMs } = this.#options
    const { turnId } = lease
    const now = monotonicNow(clock)
    // A process that did not run asked for nothing: only the store can say whether it lost the lease.
    const lateMs = now - this.#ringsAt
    const isLate = lateMs > leaseMs / RETRIES_PER_LEASE
    if (isLate) this.#heldSince += lateMs
    if (now >= this.#heldSince + leaseMs) {
      const detail = `turn ${turnId}: the store did not renew it for ${leaseMs} ms`
      return this.lose(new TurnstreamError('LEASE_LOST', detail, { cause: this.#lastError }))
    }
    if (!isLate && stalledMs() >= leaseMs) {
      const detail = `turn ${turnId}: no write was answered for ${leaseMs} ms`
      return this.lose(new TurnstreamError('STORE_UNAVAILABLE', detail))
    }
    this.#cancelTimer = this.#setTimer(RENEWALS_PER_LEASE)
    if (!this.#isRenewing) void this.#renew(now)
  }

  async #renew(askedAt: number): Promise<void> {
    const { log, lease, leaseMs } = this.#options
    this.#isRenewing = true
    try {
      await log.renew(lease, leaseMs)
      this.#heldSince = askedAt
    } catch (error) {
      if (hasCode(error, 'LEASE_LOST')) this.lose(error)
      else if (!this.#isOver && !this.isLost) {
        this.#lastError = error
        this.#cancelTimer()
        this.#cancelTimer = this.#setTimer(RETRIES_PER_LEASE)
      }
    }
    this.#isRenewing = false
  }
}

/** What is stored with every item of the turn is short. */
function bound(reason: EndReason): EndReason {
  return reason.kind === 'cancelled'
    ? { kind: 'cancelled', reason: boundReason(reason.reason) }
    : { kind: 'failed', error: boundError(reason.error) }
}
