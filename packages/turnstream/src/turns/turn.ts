import { monotonicNow } from '@turnstream/core/internal/async/clock'
import { Deferred } from '@turnstream/core/internal/async/deferred'
import { onAbort } from '@turnstream/core/internal/async/on-abort'
import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import type { ProviderRequest } from '@turnstream/core/internal/formats/provider-request'
import { MAX_ARGUMENT_CHARS } from '@turnstream/core/internal/formats/translation'
import { isForProcessor } from '@turnstream/core/internal/items/marks'
import { UnsettledItems } from '@turnstream/core/internal/items/unsettled-items'
import type { LogWriter, NewOutput, Orphan, TurnLog } from '@turnstream/core/internal/log/turn-log'
import { LiveProcessor } from '@turnstream/core/internal/processor/stream-processor'
import { eventIdsOf } from '@turnstream/core/internal/protocol/ids'
import { isInputItem } from '@turnstream/core/internal/protocol/item-ids'
import { withoutUndefined } from '@turnstream/core/internal/protocol/json'
import type { FunctionCall, OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type {
  StreamEvent,
  StreamEventPayload,
} from '@turnstream/core/internal/protocol/stream-event'
import type { StreamOutput } from '@turnstream/core/internal/protocol/stream-output'
import { isTurnGone } from '../log/rules.ts'
import { type ApprovalDecision, requestedApproval } from './approvals.ts'
import { IssuerNotes } from './issuers.ts'
import { ProviderApprovals } from './provider-approvals.ts'
import { ServerCalls } from './server-calls.ts'
import { NO_HISTORY, type ThreadHistory, threadHistory } from './thread-history.ts'
import { indexAnswer } from './thread-index.ts'
import { charsOfAnswers } from './tool-answers.ts'
import { type RoundEnd, settlementOf, Transcript } from './transcript.ts'
import { type EndReason, TurnControl } from './turn-control.ts'
import {
  errorObject,
  failed,
  isReliable,
  outcomeOf,
  providerFault,
  stoppedEnd,
  submitError,
  terminalOf,
} from './turn-ending.ts'
import { TIMED_EVERY, type TurnFacts } from './turn-observer.ts'
import { inputEvents } from './turn-request.ts'
import { TurnResponse } from './turn-response.ts'
import type { TurnServices, TurnTask } from './turn-task.ts'

const NO_TRACE = { traceparent: '' }
const NO_END = failed('INTERNAL_ERROR', 'the turn has no terminal event')

// The store may be away for the duration of the lease. The last retry comes this much earlier.
const LONGEST_PAUSE_MS = 1000

/** A request may have thousands of items; other work runs in between. */
const INPUT_ITEMS_PER_SLICE = 50

/** When this many snapshots wait for the store, the provider waits too. */
const MAX_WAITING_OUTPUTS = 250

/**
 * A running turn, from its first record to its last. Data flows in one direction:
 *
 *     provider ─payload─▶ transcript ─payload─▶ log `events` ─stored event─▶ processor ─snapshot─▶ log `processed`
 *              receive()               write()                  stored()                 show()
 *
 * The transcript numbers the items of all rounds, enforces the caps and knows which tools to run. `write`
 * assigns each event its id and time. Nothing is emitted before it is stored. `TurnControl` decides how long
 * the turn runs.
 */
export class Turn {
  /** Resolves when the input is durable; rejects if it never will be. */
  readonly opened: Promise<void>
  /** Resolves when the end of the turn is written, or the turn is lost. Never rejects. */
  readonly done: Promise<void>
  /** Resolves before a client can read the end of the turn. Never rejects. */
  readonly ending: Promise<void>
  readonly #ending = new Deferred()
  readonly #task: TurnTask
  readonly #services: TurnServices
  readonly #facts: TurnFacts
  readonly #control: TurnControl
  readonly #history: Promise<ThreadHistory>
  readonly #unsettled: UnsettledItems
  readonly #response: TurnResponse
  readonly #serverCalls: ServerCalls
  readonly #providerApprovals: ProviderApprovals
  readonly #issuers: IssuerNotes
  readonly #transcript: Transcript
  readonly #events: LogWriter<StreamEvent>
  readonly #processor: LiveProcessor
  readonly #outputs: LogWriter<NewOutput>
  readonly #nextEventId: () => string
  readonly #nextOutputId: () => string
  readonly #onError: (error: unknown) => void
  #isAnswered = false
  #cancelledAt: number | undefined
  #written = 0
  #stored = 0
  /** A write whose duration is measured. */
  #timed: { readonly place: number; readonly since: number } | undefined
  #end: RoundEnd | undefined

  constructor(task: TurnTask, services: TurnServices) {
    const { lease, threadId, tenant, provider, model, since } = task
    const { log, tools, caps, clock, leaseMs, observer } = services
    const { emission, retry, call } = services.processor
    const { maxArgumentChars = provider.maxArgumentChars ?? MAX_ARGUMENT_CHARS } = call
    const { turnId, runId, next } = lease
    this.#task = task
    this.#services = services
    const onError = (error: unknown) => services.onError(error, { turnId })
    this.#onError = onError
    this.#nextEventId = eventIdsOf(runId, next.events - 1)
    this.#nextOutputId = eventIdsOf(`${turnId}/processed`, next.processed - 1)
    const onAnswer = this.#onApproval
    const facts = { turnId, threadId, tenant, provider: provider.id, model }
    this.#facts = facts
    this.#serverCalls = new ServerCalls({ ...services, lease, facts, onAnswer, onError })
    const { approvals } = this.#serverCalls
    this.#providerApprovals = new ProviderApprovals(approvals, onError)
    this.#issuers = new IssuerNotes(log, onError)
    this.#unsettled = new UnsettledItems(runId)
    this.#response = new TurnResponse(this.#unsettled)
    this.#transcript = new Transcript({
      runId,
      registry: tools.names,
      caps,
      maxArgumentChars,
      approvals,
      providerApprovals: this.#providerApprovals,
      unsettled: this.#unsettled,
      onError,
    })
    const retryForMs = leaseMs + LONGEST_PAUSE_MS
    const onFailed = (error: unknown) => this.#control.lose(error)
    const writing = { ...retry, retryForMs, onFailed }
    this.#events = log.open(lease, 'events', { ...writing, onStored: this.#onStored })
    this.#outputs = log.open(lease, 'processed', {
      ...writing,
      onStored: ({ length }) => {
        observer.counts.snapshots += length
      },
    })
    const ids = { turnId, threadId }
    this.#processor = new LiveProcessor({ ...ids, ...emission, clock, onError, onShow: this.#show })
    this.#control = new TurnControl({
      log,
      lease,
      leaseMs,
      since,
      clock,
      maxTurnTimeMs: caps.maxTurnTimeMs,
      stalledMs: () => Math.max(this.#events.stalledMs, this.#outputs.stalledMs),
      onCancelled: () => {
        this.#cancelledAt ??= monotonicNow(clock)
      },
      onLost: this.#onLost,
    })
    observer.started(this.#facts)
    this.#history = this.#readHistory()
    this.#history.catch(() => {}) // it is the end of the turn, see `#play`
    this.opened = this.#open()
    this.opened.catch(() => {}) // handled by the submit
    this.ending = this.#ending.promise
    this.done = this.#run().finally(() => this.#ending.resolve())
  }

  /** Called when this process receives a cancel for the turn, before the store confirms it. */
  noteCancel(log: TurnLog, turnId: string): void {
    if (log !== this.#services.log || turnId !== this.#facts.turnId) return
    this.#cancelledAt ??= monotonicNow(this.#services.clock)
  }

  /** Returns whether this is the turn and it is still being written here. */
  isOf({ tenant, turnId }: Orphan): boolean {
    return !this.#control.isLost && this.#facts.turnId === turnId && this.#facts.tenant === tenant
  }

  /** Ends the turn early, unless it has ended or is about to. */
  stop(reason: EndReason): void {
    this.#control.stop(reason)
  }

  /** Ends the turn if it waits for an approval, now or later. */
  stopWaiting(reason: EndReason): void {
    this.#serverCalls.approvals.close(() => this.stop(reason))
  }

  async #run(): Promise<void> {
    try {
      await this.opened
      await this.#play()
    } catch (error) {
      this.#fail(error)
    }
    this.#control.endTimeLimit()
    try {
      await this.#finish()
    } catch (error) {
      this.#control.lose(error)
    }
    this.#control.release()
    this.#processor.release()
    this.#events.close()
    this.#outputs.close()
    this.#reportEnd()
  }

  /** Reports a failure of this process. A lost turn was already reported. */
  #fail(error: unknown): void {
    if (this.#control.isLost) return
    this.#onError(error)
    this.#control.stop({ kind: 'failed', error: errorObject(error) })
  }

  readonly #onLost = (error: unknown): void => {
    this.#events.close()
    this.#outputs.close()
    // The deletion was requested, so it is not an error.
    if (!isTurnGone(error)) this.#onError(error)
  }

  // Opening: writes the input.

  #readHistory(): Promise<ThreadHistory> {
    const { lease, threadId, input, historyRoom, history } = this.#task
    if (history !== undefined) return Promise.resolve(NO_HISTORY)
    const { log } = this.#services
    const { signal } = this.#control
    return threadHistory({ log, threadId, turnId: lease.turnId, input, room: historyRoom, signal })
  }

  async #open(): Promise<void> {
    const { lease, threadId, agentId, replaces, parameters, model, provider } = this.#task
    const { input, answers, history } = this.#task
    const { turnId, runId } = lease
    const turns_dropped = await this.#history.then(
      ({ turnsDropped }) => turnsDropped,
      () => 0,
    )
    this.#write({
      type: 'response_start',
      response_id: runId,
      turn_id: turnId,
      thread_id: threadId,
      ...withoutUndefined({ agent_id: agentId }),
      model_id: model,
      provider_id: provider.id,
      created_at: Math.trunc(this.#services.clock.now()),
      ...(turns_dropped > 0 && { history_truncated: { turns_dropped } }),
      ...(history !== undefined && { history_given: true }),
      ...withoutUndefined({ replaces, parameters }),
    })
    const chars = parameters === undefined ? 0 : JSON.stringify(parameters).length
    this.#transcript.items.spend(charsOfAnswers(answers) + chars)
    for (let at = 0; at < input.length; at += INPUT_ITEMS_PER_SLICE) {
      if (at > 0 && isSliceOver()) await nextSlice()
      await this.#writeAll(inputEvents(input.slice(at, at + INPUT_ITEMS_PER_SLICE), answers))
    }
    try {
      await this.#events.flush()
    } catch (error) {
      const { reason } = this.#control
      throw submitError(turnId, reason?.kind === 'lost' ? reason.error : error)
    }
  }

  // The pipeline, in the order of the data.

  /** Takes a provider payload, after the approval of a call is decided. Returns false when no more is wanted. */
  readonly #receive = (received: StreamEventPayload): Promise<void> | false | undefined => {
    const decided = this.#serverCalls.approvals.decide(received, this.#control.signal)
    if (decided === undefined) return this.#apply(received)
    return decided.then(async () => {
      await this.#apply(received)
    })
  }

  /** Adds a payload to the transcript. Returns false when no more is wanted. */
  #apply(received: StreamEventPayload): Promise<void> | false | undefined {
    const payload = this.#transcript.apply(received)
    if (payload === undefined) {
      return this.#transcript.end !== undefined || this.#isPastCap() ? false : undefined
    }
    if (!this.#isAnswered) this.#noteAnswer(payload)
    if (payload.type === 'item_done') this.#issuers.add(payload.final_item)
    const approvalId = requestedApproval(payload)
    if (approvalId !== undefined) return this.#writeRequest(payload, approvalId)
    return this.#write(payload) ? undefined : this.#room()
  }

  /** Any process may get the answer once the event is visible, so its keyed record comes first. */
  async #writeRequest(payload: StreamEventPayload, approvalId: string): Promise<void> {
    await this.#serverCalls.approvals.recordRequest(approvalId, this.#control.signal)
    if (this.#control.reason === undefined && !this.#write(payload)) await this.#room()
  }

  /** Assigns an event its id and time and writes it to `events`. Returns whether there is room for more. */
  #write(payload: StreamEventPayload): boolean {
    const event = this.#stamp(payload)
    if (payload.type !== 'item_delta') this.#response.apply(event)
    this.#unsettled.apply(payload)
    return this.#events.write(event) && this.#outputs.waiting < MAX_WAITING_OUTPUTS
  }

  readonly #onStored = (events: readonly StreamEvent[]): void => {
    this.#services.observer.counts.events += events.length
    this.#stored += events.length
    if (this.#timed !== undefined && this.#stored > this.#timed.place) this.#noteTime()
    if (this.#control.isLost) return
    for (const event of events) if (isForProcessor(event)) this.#processor.apply(event)
  }

  /** Writes a snapshot to `processed`. The end of the turn seals it. */
  readonly #show = (output: StreamOutput): void => {
    if (this.#control.isLost) return
    const timestamp = this.#services.clock.now()
    const entry = { output, eventId: this.#nextOutputId(), timestamp }
    if (output.type === 'turn_complete' || output.type === 'turn_error') {
      this.#outputs.seal(entry).catch(() => {}) // see `onFailed`
    } else this.#outputs.write(entry)
  }

  #stamp(payload: StreamEventPayload): StreamEvent {
    const { clock } = this.#services
    if ((this.#written++ & (TIMED_EVERY - 1)) === 0) {
      this.#timed ??= { place: this.#written - 1, since: monotonicNow(clock) }
    }
    return {
      event_id: this.#nextEventId(),
      timestamp: Math.trunc(clock.now()),
      trace_context: this.#task.traceContext ?? NO_TRACE,
      run_id: this.#task.lease.runId,
      type: payload.type,
      payload,
    } as StreamEvent
  }

  async #writeAll(payloads: Iterable<StreamEventPayload>): Promise<void> {
    for (const payload of payloads) if (!this.#write(payload)) await this.#room()
  }

  async #room(): Promise<void> {
    await this.#events.room()
    await this.#outputs.room()
  }

  #noteTime(): void {
    const { clock, observer } = this.#services
    observer.appended(monotonicNow(clock) - (this.#timed?.since ?? 0))
    this.#timed = undefined
  }

  #noteAnswer({ type }: StreamEventPayload): void {
    if (type !== 'item_delta' && type !== 'item_done') return
    this.#isAnswered = true
    const { clock, observer } = this.#services
    observer.answered(this.#facts, monotonicNow(clock) - this.#task.since)
  }

  #isPastCap(): boolean {
    const { excess: error } = this.#transcript.items
    if (error === undefined) return false
    this.#control.stop({ kind: 'failed', error })
    return true
  }

  // Rounds: call the provider, run its tool calls, send the results, and repeat until the provider is done,
  // needs the client, or is stopped. Failures of providers and tools never reject.

  async #play(): Promise<void> {
    const { items } = await this.#history
    const { maxTurnRounds } = this.#services.caps
    const transcript = this.#transcript
    const thread = [...items, ...this.#task.input]
    for (let round = 1; this.#control.reason === undefined; round++) {
      const isFollowed = await this.#callProvider(thread, round)
      if (!isFollowed || this.#control.reason !== undefined) return
      if (round > maxTurnRounds) {
        const detail = `the limit is ${maxTurnRounds} rounds of tool calls`
        return this.#control.stop(failed('TURN_ROUND_LIMIT', detail))
      }
      await this.#events.flush() // a call that ran is on record, even if this process dies
      await Promise.all(transcript.callsForServer.map((call) => this.#runTool(call)))
      if (transcript.hasCallsForClient) return
    }
  }

  /** Runs one round. Returns whether server tools have to answer it. */
  async #callProvider(thread: readonly OutputItem[], round: number): Promise<boolean> {
    const { settings = {}, model } = this.#task
    const transcript = this.#transcript
    const request: ProviderRequest = {
      ...this.#services.tools.settingsOf(settings, round),
      model,
      input: [...thread, ...transcript.items.finished],
    }
    const nextItemId = transcript.beginRound()
    try {
      await this.#listen(request, round, nextItemId)
    } catch (error) {
      if (this.#control.reason === undefined) {
        this.#onError(error)
        transcript.failRound(providerFault(error))
      }
    }
    if (this.#control.reason !== undefined) return false
    await this.#writeAll(transcript.endRound())
    const { end, callsForServer } = transcript
    return end !== undefined && isReliable(end) && callsForServer.length > 0
  }

  async #listen(request: ProviderRequest, round: number, nextItemId: () => string): Promise<void> {
    const { provider, lease, threadId, tenant } = this.#task
    const { turnId, runId } = lease
    const { signal } = this.#control
    const { observer } = this.#services
    // Each round is a run of its own for the provider, which derives ids from it.
    const roundId = round === 1 ? runId : `${runId}-${round}`
    const { call } = this.#services.processor
    const ids = { runId: roundId, turnId, threadId, tenant, round, nextItemId, ...call }
    const callbacks = {
      onRetry: () => observer.retried(this.#facts),
      onUnknown: (type: string) => observer.unknownEvent(this.#facts, type),
      isApproved: this.#providerApprovals.beginRound(signal),
    }
    const stream = provider.stream(request, { ...ids, ...callbacks }, signal)
    // Do not wait for a provider that ignores the signal.
    const forget = onAbort(signal, () => stream.abort())
    try {
      await stream.consume(this.#receive)
    } finally {
      forget()
      this.#providerApprovals.endRound()
    }
  }

  async #runTool(call: FunctionCall): Promise<void> {
    const answer = await this.#serverCalls.run(call, this.#control.signal)
    if (answer === undefined || this.#control.reason !== undefined) return
    await this.#writeAll(this.#transcript.answer(call, answer))
    this.#isPastCap()
  }

  readonly #onApproval = async (callId: string, id: string, answer: ApprovalDecision) => {
    await this.#writeAll(this.#transcript.answerApproval(callId, id, answer))
    // The log must say that a call was approved before the call has effects.
    if (!this.#isPastCap()) await this.#events.flush()
  }

  // The end.

  /** Decides once how the turn ends, and writes it. */
  async #finish(): Promise<void> {
    const { reason } = this.#control
    if (reason?.kind === 'lost') return
    const settlement = reason ?? settlementOf(this.#transcript.end)
    await this.#writeAll(this.#unsettled.settleAll(settlement))
    const news = this.#transcript.usageNews()
    if (news !== undefined) this.#write(news)
    // A client that has read the end may send the data back, even to another process.
    await this.#issuers.settle()
    if (this.#control.isLost) return
    this.#end = this.#terminal(reason)
    await this.#index(this.#end)
    const event = this.#stamp(this.#end)
    this.#response.apply(event)
    this.#ending.resolve()
    await this.#events.seal(event, this.#response.toJson(this.#onError))
    await this.#outputs.flush()
  }

  /** Before the end is visible: the client may then continue at once. */
  async #index(end: RoundEnd): Promise<void> {
    const { answerKey, lease, threadId } = this.#task
    if (answerKey === undefined || end.type !== 'response_done' || end.status !== 'complete') return
    const { log, clock } = this.#services
    const items = this.#response.items.filter(({ id }) => !isInputItem(lease.runId, id))
    const entry = { log, clock, answerKey, items, threadId, turnId: lease.turnId }
    await indexAnswer(entry, this.#onError)
  }

  #terminal(reason: EndReason | undefined): RoundEnd {
    const { lease } = this.#task
    // Rounds have an end unless they were stopped.
    const { end = stoppedEnd(NO_END, lease), usage, hasCallsForClient } = this.#transcript
    const last = reason === undefined ? end : stoppedEnd(reason, lease)
    return terminalOf(last, lease, usage.sum, hasCallsForClient)
  }

  #reportEnd(): void {
    const { clock, observer } = this.#services
    const { reason, isLost } = this.#control
    const { since } = this.#task
    const times = { now: monotonicNow(clock), since, cancelledAt: this.#cancelledAt }
    const isDeleted = reason?.kind === 'lost' && isTurnGone(reason.error)
    observer.ended(this.#facts, outcomeOf(isLost ? undefined : this.#end, times, isDeleted))
  }
}
