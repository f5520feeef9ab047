import { type Clock, monotonicNow, shared } from '@turnstream/core/internal/async/clock'
import { Fifo } from '@turnstream/core/internal/async/fifo'
import type { StopSignal } from '@turnstream/core/internal/async/on-abort'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { type ErrorCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { Caller } from '../auth/authenticate.ts'
import { LimitedError } from '../errors.ts'
import { once } from '../once.ts'
import { UnsentBytes } from './unsent-bytes.ts'

/** Limits per key on this instance. Without keys, all callers share them. */
export interface GatewayLimits {
  /** Turns submitted in any 60 seconds. 60 by default. */
  readonly submitsPerMinute: number
  /** Concurrent turns. 10 by default. */
  readonly maxRunningTurns: number
  /** Open streams. 200 by default. */
  readonly maxOpenStreams: number
  /** Reads of turns and threads in progress or queued. 100 by default. */
  readonly maxConcurrentReads: number
  /** Bytes of large requests until their turns end, and of what clients have not read yet. 64 MB by default. */
  readonly maxUnsentBytes: number
  /** Stored threads of the tenant. 1,000,000 by default. */
  readonly maxThreads: number
}

export const KEY_LIMITS: GatewayLimits = {
  submitsPerMinute: 60,
  maxRunningTurns: 10,
  maxOpenStreams: 200,
  maxConcurrentReads: 100,
  maxUnsentBytes: 64 * 1024 * 1024,
  maxThreads: 1_000_000,
}

/**
 * Fills in the defaults. OPTION_INVALID unless every limit is an integer from 1 or `Infinity`: 0 could mean "none" or
 * "no limit".
 */
export function resolveLimits<Limits extends Record<keyof Limits, number>>(
  defaults: Limits,
  given: Partial<Limits> = {},
): Limits {
  const limits = { ...defaults }
  for (const name of Object.keys(defaults) as (keyof Limits & string)[]) {
    const value = given[name] ?? defaults[name]
    if (value !== Infinity && !(Number.isSafeInteger(value) && value >= 1)) {
      const detail = `${name} must be an integer from 1, or Infinity for no limit, not ${value}`
      throw new TurnstreamError('OPTION_INVALID', detail)
    }
    limits[name] = value
  }
  return limits
}

/** Concurrent reads, and concurrent large bodies, per key. Enough to serve one key at full speed. */
const PARALLEL = 4

/** Task queue of a key: a few tasks run, the others wait in order. */
class WorkQueue {
  readonly #waiting = new Fifo<() => void>()
  #running = 0

  get size(): number {
    return this.#running + this.#waiting.size
  }

  /** Runs a task in order. The task may call `leave` early to start the next one. */
  async run<T>(task: (leave: () => void) => Promise<T>): Promise<T> {
    if (this.#running < PARALLEL) this.#running += 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    const leave = once(() => {
      // The next task takes over the slot.
      if (this.#waiting.size > 0) this.#waiting.shift()()
      else this.#running -= 1
    })
    try {
      return await task(leave)
    } finally {
      leave()
    }
  }
}

const MINUTE_MS = 60_000

// When a turn or a stream will end is unknown: a compromise between latency and load.
const RETRY_MS = 5000

// Enough for the largest body of a fast client; short enough that slow ones do not block others.
const SLOW_BODY_MS = 100

class KeyUse {
  turns = 0
  streams = 0
  readonly submits: SlidingWindow
  /** Requests with an invalid body. */
  readonly refusals: SlidingWindow
  readonly reads = new WorkQueue()
  readonly bodies = new WorkQueue()
  readonly unsent: UnsentBytes

  constructor({ submitsPerMinute, maxUnsentBytes }: GatewayLimits) {
    this.submits = new SlidingWindow(submitsPerMinute, MINUTE_MS)
    this.refusals = new SlidingWindow(submitsPerMinute, MINUTE_MS)
    this.unsent = new UnsentBytes(maxUnsentBytes)
  }

  isIdleAt(now: number): boolean {
    const { turns, streams, reads, bodies, unsent } = this
    const inFlight = turns + streams + reads.size + bodies.size + unsent.size
    return inFlight === 0 && this.submits.isEmptyAt(now) && this.refusals.isEmptyAt(now)
  }
}

/** Larger than nearly every answer, and small enough for each of a key's streams to hold one. */
const SMALL_BYTES = 256 * 1024

/** A slot for one open stream of a key, which may count as several, and what the server holds for it. */
export class StreamSlot {
  /** Shared by all streams of the key. */
  readonly #unsent: UnsentBytes
  readonly #size: number
  #use: KeyUse | undefined

  constructor(use: KeyUse, size: number) {
    use.streams += size
    this.#unsent = use.unsent
    this.#size = size
    this.#use = use
  }

  /** Idempotent. */
  free(): void {
    if (this.#use !== undefined) this.#use.streams -= this.#size
    this.#use = undefined
    this.#unsent.forget(this)
  }

  /** Counts bytes that were sent but not read, until the returned function is called. */
  hold(bytes: number): () => void {
    return this.#unsent.hold(bytes)
  }

  /** Counts what an encoder keeps of its answer, in place of the last figure. Small answers are not counted. */
  keep(bytes: number): void {
    if (bytes > SMALL_BYTES && this.#use !== undefined) this.#unsent.keep(this, bytes)
  }

  /** Whether to await `room` before this many more bytes are encoded. Small amounts always fit. */
  isHeldBack(bytes: number): boolean {
    return bytes > SMALL_BYTES && this.#use !== undefined && this.#unsent.mustWait(this)
  }

  /** Resolves when there is room for this many bytes or `signal` aborts. */
  async room(bytes: number, signal: StopSignal): Promise<void> {
    while (this.isHeldBack(bytes) && !signal.aborted) await this.#unsent.room(signal)
  }
}

/**
 * Enforces the limits of each key on this instance. Drops idle keys at most once a minute, when an unknown one arrives.
 */
export class KeyLimits {
  readonly #limits: GatewayLimits
  readonly #clock: Clock
  readonly #uses = new Map<string, KeyUse>()
  #sweptAt = 0

  /** OPTION_INVALID for an invalid limit. */
  constructor(limits: Partial<GatewayLimits> | undefined, clock: Clock) {
    this.#limits = resolveLimits<GatewayLimits>(KEY_LIMITS, limits)
    this.#clock = clock
  }

  get maxThreads(): number {
    return this.#limits.maxThreads
  }

  get size(): number {
    return this.#uses.size
  }

  /** Counts a turn until the returned function is called. SUBMITS_LIMITED, TURNS_LIMITED. */
  admitTurn(caller: Caller): () => void {
    const use = this.checkTurn(caller)
    use.submits.add(this.#now())
    use.turns += 1
    return once(() => {
      use.turns -= 1
    })
  }

  /** Checks that a turn would be admitted now, before work is done for it. SUBMITS_LIMITED, TURNS_LIMITED. */
  checkTurn(caller: Caller): KeyUse {
    const { maxRunningTurns } = this.#limits
    const use = this.#useOf(caller)
    this.#checkWindow(use.submits)
    if (use.turns >= maxRunningTurns) throw limited('TURNS_LIMITED', maxRunningTurns)
    return use
  }

  /** Counts a new thread as a submit. SUBMITS_LIMITED. */
  admitThread(caller: Caller): void {
    const { submits } = this.#useOf(caller)
    this.#checkWindow(submits)
    submits.add(this.#now())
  }

  /** Counts a request that was refused for its body: it cost as much as one that was accepted. */
  countRefusal(caller: Caller): void {
    const { refusals } = this.#useOf(caller)
    if (refusals.waitAt(this.#now()) === 0) refusals.add(this.#now())
  }

  /** Refuses a body, before it is read, of a key that sent as many invalid ones as it may submit. SUBMITS_LIMITED. */
  checkRefusals(caller: Caller): void {
    this.#checkWindow(this.#useOf(caller).refusals)
  }

  /** STREAMS_LIMITED. */
  takeStream(caller: Caller, size = 1): StreamSlot {
    const { maxOpenStreams } = this.#limits
    const use = this.#useOf(caller)
    if (use.streams + size > maxOpenStreams) throw limited('STREAMS_LIMITED', maxOpenStreams)
    return new StreamSlot(use, size)
  }

  /** Queues a read. READS_LIMITED; UNREAD_LIMITED while the key's clients leave too much unread. */
  async read<T>(caller: Caller, read: () => Promise<T>): Promise<T> {
    const { maxConcurrentReads } = this.#limits
    const { reads, unsent } = this.#useOf(caller)
    if (reads.size >= maxConcurrentReads) throw limited('READS_LIMITED', maxConcurrentReads)
    return reads.run(() => {
      if (unsent.isFull) throw this.#unread()
      return read()
    })
  }

  /** Queues the read of a large body. A slow body uses no CPU time, so others may pass it. */
  readBody<T>(caller: Caller, read: () => Promise<T>): Promise<T> {
    return this.#useOf(caller).bodies.run((leave) => {
      const cancelTimer = this.#clock.after(SLOW_BODY_MS, leave)
      return read().finally(cancelTimer)
    })
  }

  /** Counts a request until the returned function is called. It delays no reader. UNREAD_LIMITED. */
  holdRequest(caller: Caller, bytes: number): () => void {
    const { unsent } = this.#useOf(caller)
    if (!unsent.fitsRequest(bytes)) throw this.#unread()
    return unsent.holdRequest(bytes)
  }

  /** Counts a response until the returned function is called: received or disconnected. UNREAD_LIMITED. */
  holdAnswer(caller: Caller, bytes: number): () => void {
    const { unsent } = this.#useOf(caller)
    if (!unsent.fits(bytes)) throw this.#unread()
    return unsent.hold(bytes)
  }

  #now(): number {
    return monotonicNow(this.#clock)
  }

  #checkWindow(window: SlidingWindow): void {
    const waitMs = window.waitAt(this.#now())
    if (waitMs === 0) return
    const { submitsPerMinute } = this.#limits
    throw new LimitedError('SUBMITS_LIMITED', `the limit is ${submitsPerMinute} per minute`, waitMs)
  }

  #unread(): LimitedError {
    return limited('UNREAD_LIMITED', `${this.#limits.maxUnsentBytes} bytes`)
  }

  #useOf({ tenant, key }: Caller): KeyUse {
    // Tenant names contain no spaces.
    const name = `${tenant} ${key}`
    const known = this.#uses.get(name)
    if (known !== undefined) return known
    this.#forgetIdle()
    const use = new KeyUse(this.#limits)
    this.#uses.set(name, use)
    return use
  }

  #forgetIdle(): void {
    const now = this.#now()
    if (now >= this.#sweptAt && now < this.#sweptAt + MINUTE_MS) return
    this.#sweptAt = now
    for (const [name, use] of this.#uses) if (use.isIdleAt(now)) this.#uses.delete(name)
  }
}

function limited(code: ErrorCode, max: number | string): LimitedError {
  return new LimitedError(code, `the limit is ${max}`, RETRY_MS)
}

/** Sliding window: admits `limit` in any `spanMs`. Stores at most `limit` timestamps. */
export class SlidingWindow {
  readonly #limit: number
  readonly #spanMs: number
  /** Admission times, oldest first. Those before `#first` no longer count. */
  #times: number[] = []
  #first = 0

  constructor(limit: number, spanMs: number) {
    this.#limit = limit
    this.#spanMs = spanMs
  }

  /** Milliseconds until the next admission; 0 for now. */
  waitAt(now: number): number {
    this.#forget(now)
    const oldest = this.#times[this.#first]
    if (oldest === undefined || this.#count < this.#limit) return 0
    return oldest + this.#spanMs - now
  }

  /** Call only when `waitAt` is 0. */
  add(now: number): void {
    if (this.#limit !== Infinity) this.#times.push(now)
  }

  isEmptyAt(now: number): boolean {
    this.#forget(now)
    return this.#count === 0
  }

  get #count(): number {
    return this.#times.length - this.#first
  }

  #forget(now: number): void {
    const newest = this.#times.at(-1) ?? now
    // If the clock was set back, earlier admissions count from now, for at most the span.
    if (newest > now) this.#times = this.#times.map((time) => Math.min(time, now))
    while ((this.#times[this.#first] ?? Infinity) <= now - this.#spanMs) this.#first += 1
    if (this.#first * 2 < this.#times.length) return
    this.#times.splice(0, this.#first)
    this.#first = 0
  }
}

/** How long a count is cached. Changes by other instances are seen after this. */
const FRESH_MS = 60_000

/** Cache time while the quota is used up. */
const FRESH_WHEN_FULL_MS = 5000

/** Limits the stored threads of a tenant. Counts in the store periodically, and locally in between. */
export function createThreadQuota(log: TurnLog, max: number, clock: Clock) {
  let count = 0
  let countedAt = -Infinity
  const recount = shared(async () => {
    count = await log.countThreads()
    countedAt = monotonicNow(clock)
  })
  const release = (): void => {
    count = Math.max(0, count - 1)
  }

  /** Reserves room for a thread that may be new. Returns a function that releases it. THREADS_LIMITED. */
  async function reserve(threadId?: string): Promise<() => void> {
    const isKnown = async () => threadId !== undefined && (await log.getThread(threadId))
    if (max === Infinity || (await isKnown())) return () => {}
    const age = monotonicNow(clock) - countedAt
    if (age >= (count < max ? FRESH_MS : FRESH_WHEN_FULL_MS)) await recount()
    if (count >= max) throw new LimitedError('THREADS_LIMITED', `the limit is ${max}`, FRESH_MS)
    count += 1
    return release
  }

  return { reserve, release }
}
