import { createHash } from 'node:crypto'
import { type Clock, monotonicNow, systemClock } from '../async/clock.ts'
import { START } from '../log/offsets.ts'
import { TurnExistsError } from '../log/rules.ts'
import { logOf } from '../log/tenants.ts'
import type { Lease, NewTurn, Orphan, TurnLog, TurnRecord } from '../log/turn-log.ts'
import { hasCode, isTurnMissing, TurnstreamError } from '../protocol/errors.ts'
import { isRecord } from '../protocol/json.ts'
import { DEFAULT_TENANT } from '../protocol/tenant.ts'
import type { ChosenModel, Providers } from './providers.ts'
import { Reaper } from './reaper.ts'
import { historyRoom, type InputSize } from './thread-history.ts'
import { type Tool, ToolRegistry } from './tools.ts'
import { Turn, type TurnServices, type TurnTask } from './turn.ts'
import { failed } from './turn-ending.ts'
import { resolveCaps, type TurnCaps } from './turn-items.ts'
import { guardObserver, type TurnObserver } from './turn-observer.ts'
import { inputItems, type Submission, type Submitted } from './turn-request.ts'

export type { TurnCaps }

export interface TurnRunnerOptions {
  readonly log: TurnLog
  readonly providers: Providers
  readonly tools?: readonly Tool[]
  readonly caps?: Partial<TurnCaps>
  /** The name of this process, for people: it stands in the record of each turn. */
  readonly owner: string
  /** How long a turn stays ours without a sign of life: 10 s unless given. */
  readonly leaseMs?: number
  readonly clock?: Clock
  /** Makes ids of turns and threads: random UUIDs unless given. */
  readonly generateId?: () => string
  /** Told of what becomes of turns. */
  readonly observer?: TurnObserver
  /** Told of what nobody awaits. */
  readonly onError?: (error: unknown, about: { readonly turnId?: string }) => void
}

const LEASE_MS = 10_000
const NO_TRACE = { traceparent: '' }
/** After the grace, turns have so long to be written to their end. */
const LAST_WRITES_MS = 2000
const SHUTDOWN = failed('SERVER_SHUTDOWN', 'the turn was still running')

type Admit = () => (() => void) | Promise<() => void>

export interface SubmitOptions {
  /** Whose turn it is: `default` unless given. */
  readonly tenant?: string
  /**
   * Called before a turn is made, and throws if it may not be. What it returns is called once, when that
   * turn has ended or could not be made.
   */
  readonly admit?: Admit
}

/** A submission with its ids, and what it is compared by. */
interface SubmitRequest {
  readonly tenant: string
  readonly log: TurnLog
  readonly admit: Admit
  readonly submission: Submission
  readonly ids: Submitted
  readonly fingerprint: string
}

interface InFlight {
  readonly request: SubmitRequest
  readonly submitted: Promise<Submitted>
}

/** Runs the turns of this process, and ends those of processes that died. */
export class TurnRunner {
  readonly #options: TurnRunnerOptions
  readonly #services: TurnServices
  readonly #reaper: Reaper
  readonly #generateId: () => string
  readonly #runs = new Set<Turn>()
  /** The submits in flight, by tenant and turn. One that names the same turn waits for the one before. */
  readonly #submits = new Map<string, InFlight>()
  #shutdown: Promise<void> | undefined
  #isGraceOver = false
  #giveUp = () => {}
  readonly #givenUp = new Promise<void>((resolve) => {
    this.#giveUp = resolve
  })

  constructor(options: TurnRunnerOptions) {
    const { log, owner, leaseMs = LEASE_MS, clock = systemClock, onError } = options
    const tools = new ToolRegistry(options.tools)
    const report = quietly(onError)
    const observer = guardObserver(options.observer, (error) => report(error, {}))
    this.#options = options
    this.#generateId = options.generateId ?? (() => crypto.randomUUID())
    const caps = resolveCaps(options.caps)
    this.#services = { log, tools, caps, leaseMs, clock, observer, onError: report }
    const isRunning = (turn: Orphan) => [...this.#runs].some((run) => run.isOf(turn))
    this.#reaper = new Reaper({ log, owner, leaseMs, clock, isRunning, observer, onError: report })
  }

  /**
   * Resolves when the turn, with what was asked, is durable; it then runs whatever its readers do. The same
   * ids with the same body are the same turn. SUBMIT_CONFLICT, THREAD_BUSY, MODEL_UNKNOWN, INPUT_TOO_LARGE,
   * SERVER_SHUTDOWN, REQUEST_INVALID, what `admit` throws, or a code of the store.
   */
  async submit(submission: Submission, options: SubmitOptions = {}): Promise<Submitted> {
    const { tenant = DEFAULT_TENANT, admit = () => () => {} } = options
    const ids = idsOf(submission, this.#generateId)
    const log = logOf(this.#options.log, tenant)
    const request = { tenant, log, admit, submission, ids, fingerprint: fingerprintOf(submission) }
    // No name of a tenant has a space in it.
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

  /** Stops a turn, whichever process runs it. False when it has ended; TURN_UNKNOWN. */
  cancel(turnId: string, reason: string, tenant = DEFAULT_TENANT): Promise<boolean> {
    const log = logOf(this.#options.log, tenant)
    for (const run of this.#runs) run.noteCancel(log, turnId)
    return log.requestCancel(turnId, reason)
  }

  /** How many turns run in this process. */
  get running(): number {
    return this.#runs.size
  }

  /** Ends what other processes left behind, now and, from then on, again and again. */
  start(): Promise<void> {
    return this.#reaper.start()
  }

  /**
   * Takes no more turns, waits for those that run, and ends those that are left after `graceMs`. Resolves two
   * seconds later at the latest, whatever the store does: `running` then says how many are left. May be
   * called again: the shortest time counts.
   */
  shutdown(graceMs: number): Promise<void> {
    this.#shutdown ??= this.#drain()
    const { clock } = this.#services
    const cancelTimer = clock.after(graceMs, () => {
      this.#isGraceOver = true
      for (const run of this.#runs) run.stop(SHUTDOWN)
      cancelLast = clock.after(LAST_WRITES_MS, this.#giveUp)
    })
    let cancelLast: (() => void) | undefined
    return Promise.race([this.#shutdown, this.#givenUp]).finally(() => {
      cancelTimer()
      cancelLast?.()
    })
  }

  async #submit(request: SubmitRequest): Promise<Submitted> {
    const { submission, ids } = request
    const { history = [], input } = submission
    const items = inputItems(ids.runId, history, input)
    let chosen: ChosenModel
    let room: InputSize
    let leave: () => void
    try {
      chosen = this.#choose(submission)
      room = historyRoom(items, this.#services.caps)
      leave = await request.admit()
    } catch (refusal) {
      const known = isNamed(submission) ? await this.#find(request) : undefined
      if (known === undefined) throw refusal
      return submittedBefore(known, request)
    }
    const since = monotonicNow(this.#services.clock)
    let lease: Lease
    try {
      lease = await this.#create(request)
    } catch (error) {
      leave()
      if (!(error instanceof TurnExistsError)) throw error
      return submittedBefore(error.turn, request)
    }
    const run = this.#begin(request, { ...chosen, lease, since, input: items, historyRoom: room })
    void run.done.then(leave)
    await run.opened
    return ids
  }

  /** Throws when the turn cannot be begun. */
  #choose({ model, providerId, settings = {} }: Submission): ChosenModel {
    if (this.#shutdown !== undefined) {
      throw new TurnstreamError('SERVER_SHUTDOWN', 'no turn is begun any more')
    }
    this.#services.tools.check(settings)
    return this.#options.providers.choose({
      ...(model !== undefined && { model }),
      ...(providerId !== undefined && { providerId }),
    })
  }

  #create({ log, ids, fingerprint }: SubmitRequest): Promise<Lease> {
    const { leaseMs, clock } = this.#services
    const { owner } = this.#options
    return createTurn(log, { ...ids, owner, request: fingerprint }, leaseMs, clock)
  }

  #begin(
    { tenant, log, submission, ids }: SubmitRequest,
    begun: Omit<TurnTask, 'tenant' | 'agentId' | 'threadId' | 'settings' | 'traceContext'>,
  ): Turn {
    const { threadId } = ids
    const { agentId, settings = {}, traceContext = NO_TRACE } = submission
    const agent = agentId === undefined ? {} : { agentId }
    const task = { ...begun, ...agent, tenant, threadId, settings, traceContext }
    const run = new Turn(task, { ...this.#services, log })
    this.#runs.add(run)
    void run.done.then(() => this.#runs.delete(run))
    if (this.#isGraceOver) run.stop(SHUTDOWN)
    return run
  }

  async #find({ log, ids }: SubmitRequest): Promise<TurnRecord | undefined> {
    const { turnId, runId } = ids
    try {
      return (await log.getTurn(turnId)) ?? (await log.getTurnOfRun(runId))
    } catch {
      return undefined // the refusal that led here says what the caller must know
    }
  }

  async #drain(): Promise<void> {
    const reaped = this.#reaper.stop()
    // A turn whose submit is in flight may still begin; submits that come now begin none.
    await Promise.allSettled([...this.#submits.values()].map(({ submitted }) => submitted))
    await Promise.all([...this.#runs].map(({ done }) => done))
    await reaped
  }
}

function isRepetition(one: SubmitRequest, other: SubmitRequest): boolean {
  return one.ids.runId === other.ids.runId && one.fingerprint === other.fingerprint
}

/** The ids of a turn that exists; SUBMIT_CONFLICT if it is not the one that is asked for. */
function submittedBefore(turn: TurnRecord, { ids, fingerprint }: SubmitRequest): Submitted {
  const { turnId, runId, threadId } = turn
  const isSame = turnId === ids.turnId && runId === ids.runId && turn.request === fingerprint
  if (isSame) return { turnId, runId, threadId }
  throw new TurnstreamError('SUBMIT_CONFLICT', `turn ${turnId} with run ${runId}`)
}

/** Between the ends of the two logs of a turn lies a commit of the store; this is many of them. */
const ENDING_MS = 2000

/**
 * Makes a turn. Whoever has read the end of an answer in the raw events may go on at once: the thread is busy until
 * the snapshots have their end as well, and that is waited for here. THREAD_BUSY while the turn before still runs.
 */
export async function createTurn(
  log: TurnLog,
  turn: NewTurn,
  leaseMs: number,
  clock: Clock,
): Promise<Lease> {
  try {
    return await log.create(turn, leaseMs)
  } catch (error) {
    if (!hasCode(error, 'THREAD_BUSY') || !(await hasEnded(log, turn.threadId, clock))) throw error
  }
  return log.create(turn, leaseMs)
}

/** Whether the last turn of a thread has come to its end, for which it may take a moment. */
async function hasEnded(log: TurnLog, threadId: string, clock: Clock): Promise<boolean> {
  const { items } = await log.listTurns(threadId, { first: 'newest', limit: 1 })
  const [last] = items
  if (last === undefined || last.sealed) return true
  if (last.status === 'in_progress') return false
  const waiting = new AbortController()
  const stopTimer = clock.after(ENDING_MS, () => waiting.abort())
  try {
    // Only its end is of interest, which is the end of the iteration.
    for await (const _ of log.tail(last.turnId, 'processed', START, waiting.signal)) continue
    return !waiting.signal.aborted
  } catch (error) {
    // A turn that was removed meanwhile keeps nobody waiting.
    if (!isTurnMissing(error)) throw error
    return true
  } finally {
    stopTimer()
  }
}

/** The ids of a turn: either of `turnId` and `runId` names both, and what is missing is made. */
function idsOf(submission: Submission, generateId: () => string): Submitted {
  const turnId = submission.turnId ?? submission.runId ?? generateId()
  const runId = submission.runId ?? turnId
  return { turnId, runId, threadId: submission.threadId ?? generateId() }
}

/** Whether the caller named the turn, so that it may have been submitted before. */
function isNamed({ turnId, runId }: Submission): boolean {
  return turnId !== undefined || runId !== undefined
}

/**
 * The same for the same body, however its JSON was ordered. Neither the ids of the turn, by which it is
 * found, nor the trace, which is new each time, are part of it.
 */
export function fingerprintOf(submission: Submission): string {
  const { threadId, model, providerId, agentId, history, input, settings } = submission
  const body = JSON.stringify(
    { threadId, model, providerId, agentId, history, input, settings },
    inOrder,
  )
  return createHash('sha256').update(body).digest('hex')
}

/** A replacer: the fields of every object by name. */
function inOrder(_key: string, value: unknown): unknown {
  if (!isRecord(value)) return value
  const names = Object.keys(value).toSorted()
  return Object.fromEntries(names.map((name) => [name, value[name]]))
}

/** Whoever is told of failures cannot cause another. */
export function quietly<About>(
  onError: ((error: unknown, about: About) => void) | undefined,
): (error: unknown, about: About) => void {
  return (error, about) => {
    try {
      onError?.(error, about)
    } catch {
      // The one who would be told of this failure is the one who failed.
    }
  }
}
