import { monotonicNow, sleep } from '@turnstream/core/internal/async/clock'
import { calculateRetryDelay } from '@turnstream/core/internal/async/retry'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { withoutUndefined } from '@turnstream/core/internal/protocol/json'
import type { ProcessHealth } from '../providers/provider.ts'
import { AppServer, type AppServerOptions } from './app-server.ts'

/** Processes at once while each serves one turn. */
const MAX_EXCLUSIVE = 4

type Prepared = Pick<AppServerOptions, 'args' | 'binary' | 'files' | 'home'>

export interface SupervisorOptions extends Omit<AppServerOptions, keyof Prepared> {
  /** Called before each start: finds the binary and writes a home for it. */
  readonly prepare: () => Prepared
  readonly onExit: (home: string) => void
  /** Threads after which a process is replaced. Each leaves about 1 MB behind. */
  readonly maxThreads: number
  readonly maxResidentBytes: number
}

const BACKOFF_MS = 500
const MAX_BACKOFF_MS = 30_000
/** A turn waits this long for a restart, and fails if it takes longer. */
const MAX_WAIT_MS = 2000
/** A process that lived this long did not fail to start. */
const STABLE_MS = 10_000
/** How long a failed start is reported. Then the next turn may try again. */
const FAILING_MS = 10_000

/**
 * Keeps one app-server running for new turns. A process that has served its number of threads, grown too large or
 * become unusable is replaced; its running turns finish on it first. After a crash the next turn starts a new one, with back-off.
 */
export class CodexSupervisor {
  readonly #options: SupervisorOptions
  readonly #all = new Set<AppServer>()
  #current: AppServer | undefined
  #starting: Promise<AppServer> | undefined
  #isStopped = false
  /** Whether each turn needs a process of its own, because output does not name its thread. */
  #isExclusive = false
  #wakeWaiting: (() => void)[] = []
  #failures = 0
  #restarts = 0
  #recycles = 0
  #retryAt = 0
  #failingUntil = 0
  #lastError: string | undefined

  constructor(options: SupervisorOptions) {
    this.#options = options
  }

  get health(): ProcessHealth {
    const current = this.#current
    const { residentBytes, pid, threads = 0 } = current ?? {}
    const turns = [...this.#all].reduce((sum, { active }) => sum + active, 0)
    const retryAt = Math.max(this.#retryAt, this.#failingUntil)
    const idleState = monotonicNow(this.#options.clock) < retryAt ? 'failing' : 'idle'
    return {
      state: current === undefined ? idleState : 'running',
      threads,
      turns,
      restarts: this.#restarts,
      recycles: this.#recycles,
      ...withoutUndefined({ pid, residentBytes, lastError: this.#lastError }),
    }
  }

  /** The process for a new thread. UPSTREAM_UNREACHABLE while it cannot be started. */
  async acquire(): Promise<AppServer> {
    for (;;) {
      if (this.#isStopped) throw unreachable('codex was stopped')
      if (this.#current !== undefined && this.#isWorn(this.#current)) this.#retire(this.#current)
      if (this.#isExclusive && this.#current === undefined && this.#all.size >= MAX_EXCLUSIVE) {
        await new Promise<void>((resolve) => this.#wakeWaiting.push(resolve))
        continue
      }
      const server = this.#current ?? (await this.#start())
      // Another turn that waited for the start may have taken it.
      if (this.#isExclusive && server.threads > 0) continue
      server.threads += 1
      server.active += 1
      return server
    }
  }

  #wake(): void {
    for (const wake of this.#wakeWaiting.splice(0)) wake()
  }

  /** Ends what `acquire` began. A replaced process is closed with its last request. */
  release(server: AppServer): void {
    server.active -= 1
    this.#closeUnused(server)
  }

  #closeUnused(server: AppServer): void {
    if (server !== this.#current && server.active === 0) void server.close()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#starting?.catch(() => {}) // its caller gets the error
    this.#current = undefined
    this.#wake()
    await Promise.all([...this.#all].map((server) => server.close()))
  }

  #isWorn(server: AppServer): boolean {
    const { maxThreads, maxResidentBytes, onLog } = this.#options
    const { fault } = server
    if (fault !== undefined) {
      onLog(`${fault}: the process is replaced`)
      return true
    }
    if (this.#isExclusive) return server.threads > 0
    return server.threads >= maxThreads || (server.residentBytes ?? 0) > maxResidentBytes
  }

  #retire(server: AppServer): void {
    this.#current = undefined
    this.#recycles += 1
    this.#closeUnused(server)
  }

  #start(): Promise<AppServer> {
    this.#starting ??= this.#startNow().finally(() => {
      this.#starting = undefined
    })
    return this.#starting
  }

  async #startNow(): Promise<AppServer> {
    const { clock } = this.#options
    const wait = this.#retryAt - monotonicNow(clock)
    if (wait > MAX_WAIT_MS) throw unreachable(this.#lastError ?? 'codex is restarting')
    if (wait > 0) await sleep(wait, clock)
    let home: string | undefined
    try {
      const prepared = this.#options.prepare()
      home = prepared.home
      const onUnaddressed = (): void => this.#makeExclusive()
      const server = await AppServer.start({ ...this.#options, ...prepared, onUnaddressed })
      this.#watch(server, home)
      home = undefined
      if (this.#isStopped) throw unreachable('codex was stopped')
      this.#current = server
      return server
    } catch (error) {
      if (home !== undefined) this.#discard(home)
      this.#fail(error)
      this.#failingUntil = monotonicNow(clock) + FAILING_MS
      throw unreachable(this.#lastError ?? 'codex cannot be started')
    }
  }

  #makeExclusive(): void {
    if (this.#isExclusive) return
    this.#isExclusive = true
    this.#options.onLog('codex does not name the thread of its output: each turn gets a process')
  }

  #discard(home: string): void {
    try {
      this.#options.onExit(home)
    } catch (error) {
      this.#options.onLog(`the home of codex was not removed: ${String(error)}`)
    }
  }

  #watch(server: AppServer, home: string): void {
    const since = monotonicNow(this.#options.clock)
    this.#all.add(server)
    void server.exited.then((reason) => {
      this.#discard(home)
      this.#all.delete(server)
      this.#wake()
      if (server !== this.#current) return
      this.#current = undefined
      this.#restarts += 1
      if (monotonicNow(this.#options.clock) - since >= STABLE_MS) this.#failures = 0
      this.#fail(reason)
    })
  }

  #fail(error: unknown): void {
    // The first restart is immediate.
    const tries = this.#failures - 1
    const delay = tries < 0 ? 0 : calculateRetryDelay(tries, BACKOFF_MS, MAX_BACKOFF_MS)
    this.#failures += 1
    this.#retryAt = monotonicNow(this.#options.clock) + delay
    this.#lastError = error instanceof Error ? error.message : String(error)
    this.#options.onLog(this.#lastError)
  }
}

function unreachable(reason: string): TurnstreamError {
  return new TurnstreamError('UPSTREAM_UNREACHABLE', reason)
}
