import { type Clock, monotonicNow } from '../../async/clock.ts'
import { Fifo } from '../../async/fifo.ts'
import { onAbort } from '../../async/on-abort.ts'
import { type ErrorCode, TurnstreamError } from '../../protocol/errors.ts'
import type { Caller } from '../auth/authenticate.ts'
import { LimitedError } from '../errors.ts'

/** What one key may do on this instance. Without keys, all callers together. */
export interface GatewayLimits {
  /** Turns submitted in any 60 seconds. 60 by default. */
  readonly submitsPerMinute: number
  /** Turns running at the same time. 10 by default. */
  readonly runningTurns: number
  /** Open streams. 200 by default. */
  readonly openStreams: number
  /** Reads of turns and threads in progress, including those that wait for earlier ones. 100 by default. */
  readonly concurrentReads: number
  /** Bytes of responses and streams that clients have not taken yet. 64 MB by default. */
  readonly unsentBytes: number
  /** Stored threads of its tenant. 100,000 by default. */
  readonly storedThreads: number
}

const DEFAULT_LIMITS: GatewayLimits = {
  submitsPerMinute: 60,
  runningTurns: 10,
  openStreams: 200,
  concurrentReads: 100,
  unsentBytes: 64 * 1024 * 1024,
  storedThreads: 100_000,
}

/** Fills in the defaults. OPTION_INVALID for what is neither a whole number from 1 nor `Infinity`. */
export function resolveLimits(given: Partial<GatewayLimits> = {}): GatewayLimits {
  const limits = { ...DEFAULT_LIMITS, ...given }
  for (const [name, value] of Object.entries(limits)) checkLimit(name, value)
  return limits
}

/** `Infinity` switches a limit off. 0 is refused: it could mean "none" or "no limit". */
export function checkLimit(name: string, value: number): void {
  if (value === Infinity || (Number.isSafeInteger(value) && value >= 1)) return
  const detail = `${name} must be a whole number from 1, or Infinity for no limit, not ${value}`
  throw new TurnstreamError('OPTION_INVALID', detail)
}

/** How many reads, and how many large bodies, of a key are in progress: enough to serve one key at full speed. */
const PARALLEL = 4

/** Work of a key: a few tasks run, the others wait in order. */
class WorkQueue {
  readonly #waiting = new Fifo<() => void>()
  #running = 0

  /** How many run or wait. */
  get size(): number {
    return this.#running + this.#waiting.size
  }

  /** Runs a task in its turn. `leave`, which it may call before its end, gives its place to the next one. */
  async run<T>(task: (leave: () => void) => Promise<T>): Promise<T> {
    if (this.#running < PARALLEL) {
      this.#running += 1
    } else {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve)
      })
    }
    let hasLeft = false
    const leave = () => {
      if (hasLeft) return
      hasLeft = true
      // The next one takes the place.
      if (this.#waiting.size > 0) this.#waiting.shift()()
      else this.#running -= 1
    }
    try {
      return await task(leave)
    } finally {
      leave()
    }
  }
}

const MINUTE_MS = 60_000

// When a turn or a stream ends is unknown: soon enough to be of use, rare enough to be no load.
const RETRY_MS = 5000

// Long enough for the largest body of a client that is near, and short enough for many slow ones not to stop others.
const SLOW_BODY_MS = 100

/** What a key has in flight. */
class KeyUse {
  turns = 0
  streams = 0
  readonly submits: SlidingWindow
  readonly reads = new WorkQueue()
  readonly bodies = new WorkQueue()
  readonly unsent: UnsentBytes

  constructor({ submitsPerMinute, unsentBytes }: GatewayLimits) {
    this.submits = new SlidingWindow(submitsPerMinute, MINUTE_MS)
    this.unsent = new UnsentBytes(unsentBytes)
  }

  isIdleAt(now: number): boolean {
    const { turns, streams, reads, bodies, unsent } = this
    const inFlight = turns + streams + reads.size + bodies.size + unsent.size
    return inFlight === 0 && this.submits.isEmptyAt(now)
  }
}

/** The place of one open stream among those of its key. */
export class StreamSlot {
  /** Shared by all streams of the key. */
  readonly unsent: UnsentBytes
  #use: KeyUse | undefined

  constructor(use: KeyUse) {
    use.streams += 1
    this.unsent = use.unsent
    this.#use = use
  }

  /** Idempotent. */
  free(): void {
    if (this.#use !== undefined) this.#use.streams -= 1
    this.#use = undefined
  }
}

/**
 * Counts what each key does on this instance, and refuses what exceeds its limits. Idle keys are forgotten when an
 * unknown key comes, at most once a minute, which needs no timer.
 */
export class KeyLimits {
  readonly #limits: GatewayLimits
  readonly #clock: Clock
  readonly #uses = new Map<string, KeyUse>()
  #sweptAt = 0

  /** OPTION_INVALID for an invalid limit. */
  constructor(limits: Partial<GatewayLimits>, clock: Clock) {
    this.#limits = resolveLimits(limits)
    this.#clock = clock
  }

  /** How many keys are remembered. */
  get size(): number {
    return this.#uses.size
  }

  /** Counts a turn until the returned function is called. SUBMITS_LIMITED, TURNS_LIMITED. */
  admitTurn(caller: Caller): () => void {
    const { runningTurns } = this.#limits
    const use = this.#useOf(caller)
    this.#checkSubmits(use)
    if (use.turns >= runningTurns) throw limited('TURNS_LIMITED', runningTurns)
    use.submits.add(this.#now())
    use.turns += 1
    let isOver = false
    return () => {
      if (!isOver) use.turns -= 1
      isOver = true
    }
  }

  /** Counts a new thread as a submit. SUBMITS_LIMITED. */
  admitThread(caller: Caller): void {
    const use = this.#useOf(caller)
    this.#checkSubmits(use)
    use.submits.add(this.#now())
  }

  /** STREAMS_LIMITED. */
  takeStream(caller: Caller): StreamSlot {
    const { openStreams } = this.#limits
    const use = this.#useOf(caller)
    if (use.streams >= openStreams) throw limited('STREAMS_LIMITED', openStreams)
    return new StreamSlot(use)
  }

  /** Runs a read in its turn. READS_LIMITED, and UNREAD_LIMITED while clients of the key leave too much unread. */
  async read<T>(caller: Caller, read: () => Promise<T>): Promise<T> {
    const { concurrentReads } = this.#limits
    const { reads, unsent } = this.#useOf(caller)
    if (reads.size >= concurrentReads) throw limited('READS_LIMITED', concurrentReads)
    return reads.run(() => {
      if (unsent.isFull) throw this.#unread()
      return read()
    })
  }

  /** Reads a large body in its turn. One that is slow to arrive needs no processor time, and lets others pass. */
  readBody<T>(caller: Caller, read: () => Promise<T>): Promise<T> {
    return this.#useOf(caller).bodies.run((leave) => {
      const cancelTimer = this.#clock.after(SLOW_BODY_MS, leave)
      return read().finally(cancelTimer)
    })
  }

  /** Counts a response until the returned function is called: when the client has taken it or left. UNREAD_LIMITED. */
  holdAnswer(caller: Caller, bytes: number): () => void {
    const { unsent } = this.#useOf(caller)
    if (!unsent.fits(bytes)) throw this.#unread()
    return unsent.hold(bytes)
  }

  #now(): number {
    return monotonicNow(this.#clock)
  }

  #checkSubmits({ submits }: KeyUse): void {
    const waitMs = submits.waitAt(this.#now())
    if (waitMs === 0) return
    const { submitsPerMinute } = this.#limits
    throw new LimitedError('SUBMITS_LIMITED', `${submitsPerMinute} a minute are allowed`, waitMs)
  }

  #unread(): LimitedError {
    return limited('UNREAD_LIMITED', `${this.#limits.unsentBytes} bytes`)
  }

  #useOf({ tenant, key }: Caller): KeyUse {
    // Tenant names have no space.
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
  return new LimitedError(code, `${max} are allowed`, RETRY_MS)
}

/** Admits `limit` in any span of `spanMs`. Stores the time of each that still counts: never more than `limit`. */
export class SlidingWindow {
  readonly #limit: number
  readonly #spanMs: number
  /** When each was admitted, oldest first. Those before `#first` no longer count. */
  #times: number[] = []
  #first = 0

  constructor(limit: number, spanMs: number) {
    this.#limit = limit
    this.#spanMs = spanMs
  }

  /** In how many ms one more is admitted; 0 for now. */
  waitAt(now: number): number {
    this.#forget(now)
    const oldest = this.#times[this.#first]
    if (oldest === undefined || this.#count < this.#limit) return 0
    return oldest + this.#spanMs - now
  }

  /** To be called only when `waitAt` is 0. */
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
    // If the clock was set back, earlier admissions count from now, and no longer than the span.
    if (newest > now) this.#times = this.#times.map((time) => Math.min(time, now))
    while ((this.#times[this.#first] ?? Infinity) <= now - this.#spanMs) this.#first += 1
    if (this.#first * 2 < this.#times.length) return
    this.#times.splice(0, this.#first)
    this.#first = 0
  }
}

/** Bytes that the clients of a key have not taken yet. May exceed the bound by one response or frame of any size. */
export class UnsentBytes {
  readonly #max: number
  #bytes = 0
  readonly #waiting = new Set<() => void>()

  constructor(max: number) {
    this.#max = max
  }

  get size(): number {
    return this.#bytes
  }

  get isFull(): boolean {
    return this.#bytes >= this.#max
  }

  fits(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.#max
  }

  /** Counts bytes until the returned function is called, for the first time. */
  hold(bytes: number): () => void {
    let held = bytes
    this.#bytes += held
    return () => {
      this.#bytes -= held
      held = 0
      if (!this.isFull) for (const wake of this.#waiting) wake()
    }
  }

  /** Resolves when there may be room, or when `signal` aborts. Another may take the room first. */
  room(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        stopListening()
        this.#waiting.delete(wake)
        resolve()
      }
      const stopListening = onAbort(signal, wake)
      this.#waiting.add(wake)
    })
  }
}
