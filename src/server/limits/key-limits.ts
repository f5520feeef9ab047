import { type Clock, monotonicNow } from '../../async/clock.ts'
import type { Caller } from '../auth/caller.ts'
import { type GatewayLimits, resolveLimits } from './gateway-limits.ts'
import { LimitedError } from './limited-error.ts'
import { ReadQueue } from './read-queue.ts'
import { SlidingWindow } from './sliding-window.ts'
import { UnsentBytes } from './unsent-bytes.ts'

const MINUTE_MS = 60_000

// Nobody knows when a turn or a stream will end: soon enough to be of use, seldom enough to be no load.
const RETRY_MS = 5000

/** What a key has under way. */
class KeyUse {
  turns = 0
  streams = 0
  readonly submits: SlidingWindow
  readonly reads = new ReadQueue()
  readonly unsent: UnsentBytes

  constructor({ submitsPerMinute, unsentBytes }: GatewayLimits) {
    this.submits = new SlidingWindow(submitsPerMinute, MINUTE_MS)
    this.unsent = new UnsentBytes(unsentBytes)
  }

  isIdleAt(now: number): boolean {
    const inFlight = this.turns + this.streams + this.reads.size + this.unsent.size
    return inFlight === 0 && this.submits.isEmptyAt(now)
  }
}

/** The place of one open stream among those of its key. */
export class StreamSlot {
  /** Those of the key. */
  readonly unsent: UnsentBytes
  #use: KeyUse | undefined

  constructor(use: KeyUse) {
    use.streams += 1
    this.unsent = use.unsent
    this.#use = use
  }

  /** Gives the place back, once, however often it is called. */
  free(): void {
    if (this.#use !== undefined) this.#use.streams -= 1
    this.#use = undefined
  }
}

/**
 * Counts what each key does on this instance, and refuses what is too much. A key that does nothing is
 * forgotten: when another comes that is not known, and at most once a minute, so that it costs no timer.
 */
export class KeyLimits {
  readonly #limits: GatewayLimits
  readonly #clock: Clock
  readonly #uses = new Map<string, KeyUse>()
  #lookedAt = 0

  /** OPTION_INVALID for a limit that is none. */
  constructor(limits: Partial<GatewayLimits> | undefined, clock: Clock) {
    this.#limits = resolveLimits(limits)
    this.#clock = clock
  }

  /** How many keys are remembered. */
  get size(): number {
    return this.#uses.size
  }

  /**
   * Counts a turn that is about to be made; what is returned is to be called at its end. SUBMITS_LIMITED,
   * TURNS_LIMITED.
   */
  admitTurn(caller: Caller): () => void {
    const { runningTurns } = this.#limits
    const now = monotonicNow(this.#clock)
    const use = this.#useOf(caller, now)
    this.#checkSubmits(use, now)
    if (use.turns >= runningTurns) {
      throw new LimitedError('TURNS_LIMITED', `${runningTurns} are allowed`, RETRY_MS)
    }
    use.submits.add(now)
    use.turns += 1
    let isOver = false
    return () => {
      if (!isOver) use.turns -= 1
      isOver = true
    }
  }

  /** Counts a thread that is about to be created as a submit. SUBMITS_LIMITED. */
  admitThread(caller: Caller): void {
    const now = monotonicNow(this.#clock)
    const use = this.#useOf(caller, now)
    this.#checkSubmits(use, now)
    use.submits.add(now)
  }

  /** Takes a place for a stream that is about to be opened. STREAMS_LIMITED. */
  takeStream(caller: Caller): StreamSlot {
    const { openStreams } = this.#limits
    const use = this.#useOf(caller, monotonicNow(this.#clock))
    if (use.streams >= openStreams) {
      throw new LimitedError('STREAMS_LIMITED', `${openStreams} are allowed`, RETRY_MS)
    }
    return new StreamSlot(use)
  }

  /**
   * Runs a read when it is its turn among those of its key. READS_LIMITED when too many are in progress,
   * UNREAD_LIMITED while clients of the key leave too much unread.
   */
  async read<T>(caller: Caller, read: () => Promise<T>): Promise<T> {
    const { concurrentReads } = this.#limits
    const { reads, unsent } = this.#useOf(caller, monotonicNow(this.#clock))
    if (reads.size >= concurrentReads) {
      throw new LimitedError('READS_LIMITED', `${concurrentReads} are allowed`, RETRY_MS)
    }
    return reads.run(() => {
      if (unsent.isFull) throw this.#unread()
      return read()
    })
  }

  /**
   * Counts an answer that is about to be sent; call what is returned when the client has taken it or left.
   * UNREAD_LIMITED.
   */
  holdAnswer(caller: Caller, bytes: number): () => void {
    const { unsent } = this.#useOf(caller, monotonicNow(this.#clock))
    if (!unsent.fits(bytes)) throw this.#unread()
    return unsent.hold(bytes)
  }

  #checkSubmits({ submits }: KeyUse, now: number): void {
    const waitMs = submits.waitAt(now)
    if (waitMs === 0) return
    const { submitsPerMinute } = this.#limits
    throw new LimitedError('SUBMITS_LIMITED', `${submitsPerMinute} a minute are allowed`, waitMs)
  }

  #unread(): LimitedError {
    const { unsentBytes } = this.#limits
    return new LimitedError('UNREAD_LIMITED', `${unsentBytes} bytes are allowed`, RETRY_MS)
  }

  #useOf({ tenant, key }: Caller, now: number): KeyUse {
    // No name of a tenant has a space in it.
    const name = `${tenant} ${key}`
    const known = this.#uses.get(name)
    if (known !== undefined) return known
    this.#forgetIdle(now)
    const use = new KeyUse(this.#limits)
    this.#uses.set(name, use)
    return use
  }

  #forgetIdle(now: number): void {
    if (now >= this.#lookedAt && now < this.#lookedAt + MINUTE_MS) return
    this.#lookedAt = now
    for (const [name, use] of this.#uses) if (use.isIdleAt(now)) this.#uses.delete(name)
  }
}
