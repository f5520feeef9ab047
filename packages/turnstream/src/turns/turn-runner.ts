import { createHash } from 'node:crypto'
import { type Clock, monotonicNow, systemClock } from '@turnstream/core/internal/async/clock'
import { Deferred } from '@turnstream/core/internal/async/deferred'
import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import type { Submission } from '@turnstream/core/internal/formats/submission'
import type { Lease, Orphan, TurnLog, TurnRecord } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { stableJsonPieces, withoutUndefined } from '@turnstream/core/internal/protocol/json'
import { DEFAULT_TENANT } from '@turnstream/core/internal/protocol/names'
import type { ResponseItem } from '@turnstream/core/internal/protocol/response'
import { TurnExistsError } from '../log/rules.ts'
import { logOf } from '../log/tenants.ts'
import { type FittedSubmission, fitSubmission } from './fitted-submission.ts'
import { nameIssuers } from './issuers.ts'
import { type ProcessorSettings, resolveProcessor } from './processor-settings.ts'
import type { Providers } from './providers.ts'
import { Reaper } from './reaper.ts'
import { historyRoom, type InputSize } from './thread-history.ts'
import { canContinue } from './thread-index.ts'
import { threadTitle } from './thread-title.ts'
import { type AnswersRequest, findAnswers, isCurrent, type ToolAnswers } from './tool-answers.ts'
import { ServerTools, type ToolSource } from './tool-sources.ts'
import { type Tool, ToolRegistry } from './tools.ts'
import { Turn } from './turn.ts'
import { failed } from './turn-ending.ts'
import { resolveCaps, type TurnCaps } from './turn-items.ts'
import { guardCallback, guardObserver, type TurnObserver } from './turn-observer.ts'
import { createTurnRecord } from './turn-record.ts'
import { inputItems, type Submitted } from './turn-request.ts'
import type { TurnServices, TurnTask } from './turn-task.ts'

export type { TurnCaps }

export interface TurnRunnerOptions {
  readonly log: TurnLog
  readonly providers: Providers
  /** Tools that this server runs, and sources of such tools. */
  readonly tools?: readonly (Tool | ToolSource)[]
  readonly caps?: Partial<TurnCaps>
  /** When snapshots are emitted, how writes are retried, and how long arguments may be. */
  readonly processor?: Partial<ProcessorSettings>
  /** Name of this process, for operators. Stored with every turn. */
  readonly instance: string
  /** How long a turn stays ours without a renewal. Default 10 s. */
  readonly leaseMs?: number
  readonly clock?: Clock
  /** Generates ids of turns and threads. Default: random UUIDs. */
  readonly generateId?: () => string
  readonly observer?: TurnObserver
  /** Called for failures that no caller awaits. */
  readonly onError?: (error: unknown, about: { readonly turnId?: string }) => void
}

const LEASE_MS = 10_000
const NO_TOOLS = new ToolRegistry()
/** Time for writing the ends of turns after the grace period. */
const LAST_WRITES_MS = 2000
const SHUTDOWN = failed('SERVER_SHUTDOWN', 'the turn was still running')

export interface SubmitOptions {
  /** Owner of the turn. Default `default`. */
  readonly tenant?: string
  /** Called before a turn is created; throws to refuse it. The result is called once, when it has ended or failed. */
  readonly admit?: () => (() => void) | Promise<() => void>
  /** Whether to accept outputs of calls that the thread does not have, or has another output for. Default false. */
  readonly acceptsAnyOutput?: boolean
  /** A hash of the request. Used for a submission without ids in place of its own hash. */
  readonly requestHash?: string | undefined
  /** The thread of a submission that names none. Not part of the request: a repetition may give another. */
  readonly threadId?: string
  /** The turn of that thread that this one continues. THREAD_BUSY if another one does, or it is gone. */
  readonly follows?: string
  /**
   * Returns a key for the turn from its answer. Until the turn expires, the newest note of the store under this key is
   * `<threadId> <turnId>`. Called when the turn is complete, before its end is visible. No note if undefined.
   */
  readonly answerKey?: (answer: readonly ResponseItem[]) => Promise<string | undefined>
}

interface SubmitRequest {
  readonly submission: Submission
  readonly options: SubmitOptions
  readonly tenant: string
  readonly log: TurnLog
  readonly ids: Submitted
  readonly fingerprint: string
}

interface InFlight {
  readonly request: SubmitRequest
  readonly submitted: Promise<Submitted>
}

/** Runs the turns of this process and ends those of dead processes. */
export class TurnRunner {
  readonly #options: TurnRunnerOptions
  readonly #services: Omit<TurnServices, 'tools'>
  readonly #tools: ServerTools
  readonly #reaper: Reaper
  readonly #generateId: () => string
  readonly #runs = new Set<Turn>()
  /** Submits in flight by tenant and turn. A submit for the same turn waits for the earlier one. */
  readonly #submits = new Map<string, InFlight>()
  #shutdown: Promise<void> | undefined
  #isGraceOver = false
  readonly #abandoned = new Deferred()

  constructor(options: TurnRunnerOptions) {
    const { log, instance: owner, leaseMs = LEASE_MS, clock = systemClock, onError } = options
    const report = guardCallback(onError)
    const observer = guardObserver(options.observer, (error) => report(error, {}))
    this.#options = options
    this.#generateId = options.generateId ?? (() => crypto.randomUUID())
    const caps = resolveCaps(options.caps)
    this.#tools = new ServerTools(options.tools ?? [], (error) => report(error, {}))
    const processor = resolveProcessor(options.processor, leaseMs)
    this.#services = { log, caps, processor, leaseMs, clock, observer, onError: report }
    const isRunning = (turn: Orphan) => [...this.#runs].some((run) => run.isOf(turn))
    this.#reaper = new Reaper({ log, owner, leaseMs, clock, isRunning, observer, onError: report })
  }

  /**
   * Resolves when the turn and its input are durable; the turn then runs whether or not anyone reads it. The
   * same ids with the same body are the same turn. SUBMIT_CONFLICT, THREAD_BUSY, MODEL_UNKNOWN,
   * INPUT_TOO_LARGE, TOOL_CALL_UNKNOWN, TOOL_CALL_ANSWERED, SERVER_SHUTDOWN, REQUEST_INVALID, TURN_UNKNOWN or
   * TURN_REPLACED because of `replaces`, an error thrown by `admit`, or a store code.
   */
  async submit(submission: Submission, options: SubmitOptions = {}): Promise<Submitted> {
    const { tenant = DEFAULT_TENANT, requestHash } = options
    const ids = this.#idsOf(submission, options)
    const log = logOf(this.#options.log, tenant)
    let fingerprint = isNamed(submission) ? undefined : requestHash
    if (fingerprint === undefined) {
      const hash = createHash('sha256')
      let isLarge = false
      for (const piece of bodyPieces(submission)) {
        if (isLarge && isSliceOver()) await nextSlice()
        hash.update(piece)
        isLarge = true
      }
      fingerprint = hash.digest('hex')
    }
    const request = { submission, options, tenant, log, ids, fingerprint }
    // Tenant names contain no space.
    const turn = `${tenant} ${ids.turnId}`
    const before = this.#submits.get(turn)
    if (before !== undefined && isRepetition(request, before.request)) return before.submitted
    const settled = before && Promise.allSettled([before.submitted])
    const submitted = settled?.then(() => this.#submit(request)) ?? this.#submit(request)
    const inFlight = { request, submitted }
    this.#submits.set(turn, inFlight)
    try {
      return await submitted
    } finally {
      if (this.#submits.get(turn) === inFlight) this.#submits.delete(turn)
    }
  }

  /** Cancels a turn, whichever process runs it. Returns false when it has ended; TURN_UNKNOWN. */
  cancel(turnId: string, reason: string, tenant = DEFAULT_TENANT): Promise<boolean> {
    const log = logOf(this.#options.log, tenant)
    for (const run of this.#runs) run.noteCancel(log, turnId)
    return log.requestCancel(turnId, reason)
  }

  /** The number of turns running in this process. */
  get running(): number {
    return this.#runs.size
  }

  /** Ends the turns of dead processes now, and periodically from then on. */
  start(): Promise<void> {
    return this.#reaper.start()
  }

  /**
   * Refuses new turns, ends those that wait for an approval, waits for the others, and ends the rest after `graceMs`.
   * Resolves at most two seconds later, whatever the store does; `running` is then the number of turns left open. May be
   * called again: the shortest grace period applies.
   */
  shutdown(graceMs: number): Promise<void> {
    if (this.#shutdown === undefined) for (const run of this.#runs) run.stopWaiting(SHUTDOWN)
    this.#shutdown ??= this.#drain()
    const { clock } = this.#services
    const cancelTimer = clock.after(graceMs, () => {
      this.#isGraceOver = true
      for (const run of this.#runs) run.stop(SHUTDOWN)
      cancelLast = clock.after(LAST_WRITES_MS, this.#abandoned.resolve)
    })
    let cancelLast: (() => void) | undefined
    return Promise.race([this.#shutdown, this.#abandoned.promise]).finally(() => {
      cancelTimer()
      cancelLast?.()
    })
  }

  /** Returns the ids of a turn. Either of `turnId` and `runId` names both; missing ids are generated. */
  #idsOf(submission: Submission, options: SubmitOptions): Submitted {
    const { runId, turnId = runId ?? this.#generateId() } = submission
    const threadId = submission.threadId ?? options.threadId ?? this.#generateId()
    return { turnId, runId: runId ?? turnId, threadId }
  }

  async #submit(request: SubmitRequest): Promise<Submitted> {
    const { submission, options, tenant, log, ids } = request
    const { history = [], input } = submission
    const items = inputItems(ids.runId, history, input)
    let before = items.slice(0, history.length)
    const { threadId } = ids
    const { caps } = this.#services
    const search: AnswersRequest = {
      log,
      threadId,
      history: submission.history && before,
      input: items.slice(history.length),
      isLenient: options.acceptsAnyOutput ?? false,
      caps,
    }
    let choice: FittedSubmission | undefined
    let room: InputSize
    let leave: (() => void) | undefined
    let found: ToolAnswers | undefined
    try {
      choice = this.#choose(submission)
      room = historyRoom(items, caps)
      if (isSliceOver()) await nextSlice()
      leave = await options.admit?.()
      before = await nameIssuers(log, before)
      // Turns that will be replaced do not count.
      found = await findAnswers({ ...search, turnId: submission.replaces })
    } catch (refusal) {
      leave?.()
      const known = isNamed(submission) ? await this.#find(request) : undefined
      if (known === undefined) throw refusal
      return submittedBefore(known, request, choice)
    }
    const since = monotonicNow(this.#services.clock)
    let lease: Lease
    try {
      lease = await this.#create(request)
    } catch (error) {
      leave?.()
      if (!(error instanceof TurnExistsError)) throw error
      return submittedBefore(error.turn, request, choice)
    }
    try {
      found = await confirmAnswers(request, search, found)
    } catch (refusal) {
      leave?.()
      await this.#discard(request)
      throw refusal
    }
    const run = this.#begin(log, {
      ...choice.submission,
      ...choice.chosen,
      tenant,
      threadId,
      lease,
      since,
      input: [...before, ...found.input],
      answers: found.answers,
      historyRoom: room,
      answerKey: options.answerKey,
    })
    // A client that has read the end may submit the next turn at once.
    void run.ending.then(leave)
    await run.opened
    return toSubmitted(ids, choice)
  }

  #choose(submission: Submission): FittedSubmission {
    const { settings = {} } = submission
    if (this.#shutdown !== undefined) {
      throw new TurnstreamError('SERVER_SHUTDOWN', 'new turns are not accepted')
    }
    const chosen = this.#options.providers.choose(submission)
    this.#toolsFor({ ...submission, ...chosen }).check(settings)
    return fitSubmission(submission, chosen)
  }

  #toolsFor({
    serverTools = true,
    settings = {},
    tools: unoffered,
  }: Pick<TurnTask, 'serverTools' | 'settings' | 'tools'>): ToolRegistry {
    if (!serverTools) return NO_TOOLS
    const tools = this.#tools.current()
    return unoffered === undefined ? tools : tools.withUnoffered(unoffered, settings)
  }

  #create({ log, ids, fingerprint, submission }: SubmitRequest): Promise<Lease> {
    const { leaseMs, clock } = this.#services
    const { replaces, contentMs } = submission
    const optional = withoutUndefined({ threadTitle: threadTitle(submission), replaces, contentMs })
    const turn = { ...ids, ...optional, owner: this.#options.instance, request: fingerprint }
    return createTurnRecord(log, turn, leaseMs, clock)
  }

  #begin(log: TurnLog, task: TurnTask): Turn {
    const run = new Turn(task, { ...this.#services, tools: this.#toolsFor(task), log })
    this.#runs.add(run)
    void run.done.then(() => this.#runs.delete(run))
    if (this.#shutdown !== undefined) run.stopWaiting(SHUTDOWN)
    if (this.#isGraceOver) run.stop(SHUTDOWN)
    return run
  }

  /** Deletes a turn that was refused after its creation. If the store fails, the reaper ends it. */
  async #discard({ log, ids: { turnId } }: SubmitRequest): Promise<void> {
    try {
      await log.deleteTurn(turnId)
    } catch (error) {
      this.#services.onError(error, { turnId })
    }
  }

  async #find({ log, ids }: SubmitRequest): Promise<TurnRecord | undefined> {
    const { turnId, runId } = ids
    try {
      return (await log.getTurn(turnId)) ?? (await log.getTurnOfRun(runId))
    } catch {
      return undefined // the caller gets the refusal that led here
    }
  }

  async #drain(): Promise<void> {
    const reaped = this.#reaper.stop()
    // A turn whose submit is in flight may still start; new submits are refused.
    await Promise.allSettled([...this.#submits.values()].map(({ submitted }) => submitted))
    await Promise.all([...this.#runs].map(({ done }) => done))
    await reaped
  }
}

/** Another turn may have followed, and ended, before this one was created. Then it searches again. */
async function confirmAnswers(
  { log, ids, options: { follows } }: SubmitRequest,
  search: AnswersRequest,
  found: ToolAnswers | undefined,
): Promise<ToolAnswers> {
  const { threadId, turnId } = ids
  const isNext =
    follows === undefined || (await canContinue(log, { threadId, turnId: follows }, turnId))
  if (isNext && found !== undefined && (await isCurrent(found, { log, ...ids }))) return found
  const again = isNext ? await findAnswers({ ...search, turnId }) : undefined
  if (again === undefined) throw new TurnstreamError('THREAD_BUSY', threadId)
  return again
}

function isRepetition(one: SubmitRequest, other: SubmitRequest): boolean {
  return one.ids.runId === other.ids.runId && one.fingerprint === other.fingerprint
}

/** Returns the ids of an existing turn. SUBMIT_CONFLICT if the request differs. */
function submittedBefore(
  turn: TurnRecord,
  { ids, fingerprint }: SubmitRequest,
  choice: FittedSubmission | undefined,
): Submitted {
  const { turnId, runId, threadId } = turn
  const isSame = turnId === ids.turnId && runId === ids.runId && turn.request === fingerprint
  if (isSame) return toSubmitted({ turnId, runId, threadId }, choice)
  throw new TurnstreamError('SUBMIT_CONFLICT', `turn ${turnId} with run ${runId}`)
}

function toSubmitted(ids: Submitted, { ignored = [] }: Partial<FittedSubmission> = {}): Submitted {
  return ignored.length === 0 ? ids : { ...ids, ignored }
}

/** Returns whether the caller named the turn, so that it may be a repeated submit. */
function isNamed({ turnId, runId }: Submission): boolean {
  return turnId !== undefined || runId !== undefined
}

/** Yields one text for equal bodies, in pieces. Without the turn's ids, its trace, and `contentMs`, a server option. */
export function bodyPieces(submission: Submission): Iterable<string> {
  const { threadId, model, providerId, agentId, replaces } = submission
  const { history, input, settings, parameters } = submission
  const ids = { threadId, model, providerId, agentId, replaces }
  return stableJsonPieces({ ...ids, history, input, settings, parameters })
}
