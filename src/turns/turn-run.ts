import { type Clock, monotonicNow } from '../async/clock.ts'
import { isTurnGone } from '../log/errors.ts'
import type { Lease, Orphan, TurnLog } from '../log/turn-log.ts'
import { hasCode, TurnstreamError } from '../protocol/errors.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import { awaitCancel } from './await-cancel.ts'
import type { InputSize } from './input-size.ts'
import { LeaseKeeper } from './lease-keeper.ts'
import { inputEvents } from './opening.ts'
import { Rounds, type TurnPlan } from './run-rounds.ts'
import { type ThreadHistory, threadHistory } from './thread-history.ts'
import type { ToolRegistry } from './tool-registry.ts'
import type { TurnCaps } from './turn-caps.ts'
import { errorObject, failed, naturalEnd, stoppedEnd, type Terminal } from './turn-ending.ts'
import type { TurnFacts, TurnObserver } from './turn-observer.ts'
import { outcomeOf } from './turn-outcome.ts'
import { settlementOf, TurnScript } from './turn-script.ts'
import { type EndReason, TurnStop } from './turn-stop.ts'
import { TurnWriter } from './turn-writer.ts'
import { UnsettledItems } from './unsettled-items.ts'

/** What all turns of a process have in common. */
export interface TurnSurroundings {
  readonly log: TurnLog
  readonly tools: ToolRegistry
  readonly caps: TurnCaps
  readonly leaseMs: number
  readonly clock: Clock
  readonly observer: TurnObserver
  readonly onError: (error: unknown, about: { readonly turnId?: string }) => void
}

export interface TurnTask extends TurnPlan {
  readonly tenant: string
  readonly agentId?: string
  readonly lease: Lease
  /** When the lease was asked for, in monotonic time. */
  readonly since: number
  /** What was asked, as items of the turn. */
  readonly asked: readonly OutputItem[]
  /** What is left for the history of the thread. */
  readonly historyRoom: InputSize
}

/** A turn that runs, from its first record to its last. */
export class TurnRun {
  /** Resolves when what was asked is durable; rejects if it will never be. */
  readonly opened: Promise<void>
  /** Resolves when the turn is written to its end, or let go. Never rejects. */
  readonly done: Promise<void>
  readonly #task: TurnTask
  readonly #around: TurnSurroundings
  readonly #stop = new TurnStop()
  readonly #unsettled = new UnsettledItems()
  readonly #script: TurnScript
  readonly #writer: TurnWriter
  readonly #history: Promise<ThreadHistory>
  readonly #onError: (error: unknown) => void
  readonly #facts: TurnFacts
  #end: Terminal | undefined
  #cancelledAt: number | undefined
  #isOver = false

  constructor(task: TurnTask, around: TurnSurroundings) {
    const { lease, threadId, traceContext, tenant, provider, model } = task
    const { log, tools, caps, clock, leaseMs, observer } = around
    const { turnId, runId } = lease
    this.#task = task
    this.#facts = { turnId, threadId, tenant, provider: provider.id, model }
    this.#around = around
    this.#onError = (error) => around.onError(error, { turnId })
    const unsettled = this.#unsettled
    this.#script = new TurnScript({
      runId,
      registry: tools.names,
      caps,
      unsettled,
      onError: this.#onError,
    })
    this.#writer = new TurnWriter({
      log,
      lease,
      threadId,
      traceContext,
      clock,
      leaseMs,
      unsettled,
      observer,
      onLost: this.#lose,
      onError: this.#onError,
    })
    observer.started(this.#facts)
    this.#history = this.#readHistory()
    this.#history.catch(() => {}) // it is the end of the turn, see `#play`
    this.opened = this.#open()
    this.opened.catch(() => {}) // whoever submitted the turn is told
    this.done = this.#run()
  }

  /** Somebody asks in this process for this turn to stop; the store has yet to say so. */
  noteCancel(log: TurnLog, turnId: string): void {
    if (log !== this.#around.log || turnId !== this.#facts.turnId) return
    this.#cancelledAt ??= monotonicNow(this.#around.clock)
  }

  /** Whether this is the turn, and it is still written here. */
  isOf({ tenant, turnId }: Orphan): boolean {
    if (this.#stop.reason?.kind === 'lost') return false
    return this.#facts.turnId === turnId && this.#facts.tenant === tenant
  }

  /** Ends the turn early, unless it has ended or is about to. */
  stop(reason: EndReason): void {
    this.#stop.stop(reason)
  }

  readonly #lose = (error: unknown): void => {
    this.#writer.letGo(error)
    // Whoever deleted the turn knows.
    const isNews = this.#stop.reason?.kind !== 'lost' && !isTurnGone(error)
    if (isNews) this.#onError(error)
    this.#stop.stop({ kind: 'lost', error })
  }

  #readHistory(): Promise<ThreadHistory> {
    const { lease, threadId, asked, historyRoom } = this.#task
    return threadHistory({
      log: this.#around.log,
      threadId,
      turnId: lease.turnId,
      input: asked,
      room: historyRoom,
      signal: this.#stop.signal,
    })
  }

  async #open(): Promise<void> {
    const { lease, threadId, agentId, model, provider, asked } = this.#task
    const { turnId, runId } = lease
    const turns_dropped = await this.#history.then(
      ({ turnsDropped }) => turnsDropped,
      () => 0,
    )
    this.#writer.write({
      type: 'response_start',
      response_id: runId,
      turn_id: turnId,
      thread_id: threadId,
      ...(agentId !== undefined && { agent_id: agentId }),
      model_id: model,
      provider_id: provider.id,
      created_at: Math.trunc(this.#around.clock.now()),
      ...(turns_dropped > 0 && { history_truncated: { turns_dropped } }),
    })
    await this.#writer.writeAll(inputEvents(asked))
    try {
      await this.#writer.durable()
    } catch (cause) {
      // Leases are no concern of whoever submitted the turn.
      if (!hasCode(cause, 'LEASE_LOST')) throw cause
      if (isTurnGone(cause)) throw new TurnstreamError('TURN_DELETED', turnId, { cause })
      const detail = `turn ${turnId} was made, but what was asked could not be written`
      throw new TurnstreamError('STORE_UNAVAILABLE', detail, { cause })
    }
  }

  async #run(): Promise<void> {
    const { log, clock, leaseMs, caps } = this.#around
    const { lease, since } = this.#task
    const keeper = new LeaseKeeper({
      log,
      lease,
      leaseMs,
      since,
      clock,
      isStuck: () => this.#writer.isStuck,
      onLost: this.#lose,
    })
    const cancelTimer = clock.after(caps.maxDurationMs, () => {
      this.#stop.stop(failed('TURN_TIME_LIMIT', `${caps.maxDurationMs} ms are allowed`))
    })
    void this.#followCancel()
    try {
      await this.#play()
    } catch (error) {
      this.#fail(error)
    }
    cancelTimer()
    try {
      await this.#finish()
    } catch (error) {
      this.#lose(error)
    }
    this.#isOver = true
    keeper.release()
    this.#stop.release()
    this.#writer.release()
    this.#tellEnd()
  }

  #tellEnd(): void {
    const { clock, observer } = this.#around
    const end = this.#stop.reason?.kind === 'lost' ? undefined : this.#end
    const times = {
      now: monotonicNow(clock),
      since: this.#task.since,
      cancelledAt: this.#cancelledAt,
    }
    const { reason } = this.#stop
    const isDeleted = reason?.kind === 'lost' && isTurnGone(reason.error)
    observer.ended(this.#facts, outcomeOf(end, times, isDeleted))
  }

  /** Something went wrong here. A turn that is lost was told of already. */
  #fail(error: unknown): void {
    if (this.#stop.reason?.kind === 'lost') return
    this.#onError(error)
    this.#stop.stop({ kind: 'failed', error: errorObject(error) })
  }

  async #followCancel(): Promise<void> {
    const { log, clock } = this.#around
    const { lease } = this.#task
    const reason = await awaitCancel({ log, lease, clock, signal: this.#stop.signal })
    if (reason === undefined || this.#isOver) return
    if (reason.kind === 'lost') return this.#lose(reason.error)
    this.#cancelledAt ??= monotonicNow(clock)
    this.#stop.stop(reason)
  }

  async #play(): Promise<void> {
    const { tools, caps, clock, observer } = this.#around
    const { lease, asked, since } = this.#task
    await this.opened
    const { items } = await this.#history
    const rounds = new Rounds({
      plan: this.#task,
      lease,
      tools,
      clock,
      script: this.#script,
      writer: this.#writer,
      stop: this.#stop,
      maxRounds: caps.maxRounds,
      onError: this.#onError,
      onAnswered: () => observer.answered(this.#facts, monotonicNow(clock) - since),
      onRetry: () => observer.retried(this.#facts),
    })
    await rounds.run([...items, ...asked])
  }

  /** Decides how the turn ends, once, and writes it. */
  async #finish(): Promise<void> {
    const { reason } = this.#stop
    if (reason?.kind === 'lost') return
    const settlement = reason ?? settlementOf(this.#script.end)
    await this.#writer.writeAll(this.#unsettled.settleAll(settlement))
    const news = this.#script.usageNews()
    if (news !== undefined) this.#writer.write(news)
    this.#end = this.#terminal(reason)
    await this.#writer.end(this.#end)
  }

  #terminal(reason: EndReason | undefined): Terminal {
    const { lease } = this.#task
    const { end, usage, calls } = this.#script
    if (reason !== undefined) return stoppedEnd(reason, lease, usage.sum)
    // Rounds end with an end, unless they were stopped.
    if (end === undefined) {
      return stoppedEnd(failed('INTERNAL_ERROR', 'the turn has no end'), lease, usage.sum)
    }
    return naturalEnd(end, lease, usage.sum, calls.hasForClient)
  }
}
