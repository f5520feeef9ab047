import { pause, within } from '@turnstream/core/internal/async/clock'
import { onAbort, untilAborted } from '@turnstream/core/internal/async/on-abort'
import { asString } from '@turnstream/core/internal/formats/fields'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { isRecord, parseJsonSafe, withoutUndefined } from '@turnstream/core/internal/protocol/json'
import type { ApprovalRequest, FunctionCall } from '@turnstream/core/internal/protocol/output-item'
import type { StreamEventPayload } from '@turnstream/core/internal/protocol/stream-event'
import type { ServerCallsOptions } from './server-calls.ts'
import { failedAnswer, needsApproval } from './tools.ts'
import type { ToolAnswer } from './transcript.ts'

/** Maximum number of approvals that a turn requests. */
const MAX_APPROVALS = 100

export interface ApprovalDecision {
  readonly approved: boolean
  readonly reason?: string
  /** Name of the key that answered. */
  readonly by?: string
  readonly at: number
}

export interface AnswerResult {
  /** Whether this call stored its answer. */
  readonly stored: boolean
  /** The stored answer. Absent when the turn was cancelled or has ended without one. */
  readonly answer?: ApprovalDecision
}

/** The key of a request, which is stored before its event is visible. That of the answer is the approval id. */
function requestKey(approvalId: string): string {
  return `request:${approvalId}`
}

/** Answers an approval of the turn, unless it has an answer. Does not check that the turn requested it. */
export async function answerApproval(
  log: TurnLog,
  turnId: string,
  approvalId: string,
  answer: ApprovalDecision,
): Promise<AnswerResult> {
  const json = JSON.stringify(answer)
  const { isAdded, value } = await log.keyedRecords.addOnce(turnId, approvalId, json)
  return { stored: isAdded, ...(value !== undefined && { answer: decodeAnswer(value) }) }
}

export async function isRequested(
  log: TurnLog,
  turnId: string,
  approvalId: string,
): Promise<boolean> {
  if ((await log.keyedRecords.find(turnId, requestKey(approvalId))) !== undefined) return true
  // The record is missing after a failure of the store, and in turns of earlier versions.
  const { records } = await log.snapshot(turnId)
  return records.some(
    ({ output }) => output.type === 'tool_call' && output.approval?.id === approvalId,
  )
}

export function requestedApproval(payload: StreamEventPayload): string | undefined {
  if (payload.type !== 'item_done') return undefined
  const { final_item: item } = payload
  if (item.type === 'approval_request') return item.approval_id
  return item.type === 'function_call' ? item.approval?.id : undefined
}

function decodeAnswer(json: string): ApprovalDecision {
  const decoded = parseJsonSafe(json)
  if (!isRecord(decoded) || typeof decoded['approved'] !== 'boolean') {
    throw new TurnstreamError('STORE_CORRUPT', 'invalid answer to an approval')
  }
  const { approved, reason, by, at } = decoded
  return {
    approved,
    ...withoutUndefined({ reason: asString(reason), by: asString(by) }),
    at: Number(at),
  }
}

export type OnAnswer = (callId: string, id: string, answer: ApprovalDecision) => Promise<void>

/** Whether a call needs approval, or why that is unknown. */
interface Decision {
  readonly call: FunctionCall
  readonly outcome: boolean | { readonly error: unknown }
}

const TIMEOUT = 'timeout'

const RETRY_MS = 250

/** How long the event of a request may wait for its keyed record. */
const MAX_RECORD_MS = 1000

/** The approvals of a turn, decided before its calls run. The first answer in the store wins, also a timeout. */
export class TurnApprovals {
  readonly #options: ServerCallsOptions
  /** What a call needs before it runs, or why that is unknown, by item. */
  readonly #requests = new Map<string, ApprovalRequest | { readonly error: unknown }>()
  /** Whether the call that the provider just finished needs approval. */
  #decision: Decision | undefined
  #requested = 0
  #waiting = 0
  #stop: (() => void) | undefined

  constructor(options: ServerCallsOptions) {
    this.#options = options
  }

  /** Decides whether a finished call needs approval, before `request`. Undefined if there is nothing to decide. */
  decide(payload: StreamEventPayload, signal: AbortSignal): Promise<void> | undefined {
    const call = payload.type === 'item_done' ? payload.final_item : undefined
    if (call?.type !== 'function_call') return undefined
    const { tools, facts } = this.#options
    const tool = tools.get(call.name)
    if (tool === undefined || (tool.needsApproval ?? false) === false) return undefined
    return needsApproval(tool, call, { tenant: facts.tenant, signal })
      .catch((error: unknown) => ({ error }))
      .then((outcome) => {
        this.#decision = { call, outcome }
      })
  }

  /** Returns the request to write with a finished call, if its tool needs approval. */
  request(call: FunctionCall, place: number): ApprovalRequest | undefined {
    const outcome = this.#outcomeFor(call)
    if (typeof outcome === 'object') this.#requests.set(call.id, outcome)
    if (outcome !== true) return undefined
    const request = this.requestForProvider(place)
    const error = new Error(`a turn may ask for ${MAX_APPROVALS} approvals`)
    this.#requests.set(call.id, request ?? { error })
    return request
  }

  #outcomeFor({ name, arguments: args }: FunctionCall): Decision['outcome'] {
    const { call, outcome } = this.#decision ?? {}
    this.#decision = undefined
    if (outcome !== undefined && call?.name === name && call.arguments === args) return outcome
    return (this.#options.tools.get(name)?.needsApproval ?? false) !== false
  }

  /** Returns a request for a call that the provider runs; undefined if the turn has asked too often. */
  requestForProvider(place: number): ApprovalRequest | undefined {
    if (this.#requested >= MAX_APPROVALS) return undefined
    this.#requested += 1
    return { id: `approval-${place}`, status: 'requested' }
  }

  /** Stores the keyed record of a request. Never rejects, and waits a second at most. */
  async recordRequest(approvalId: string, signal: AbortSignal): Promise<void> {
    const { log, lease, clock } = this.#options
    const adding = log.keyedRecords.addOnce(lease.turnId, requestKey(approvalId), '')
    const inTime = within(adding, MAX_RECORD_MS, clock, () => new Error('late'))
    await ifNotAborted(inTime, signal)
  }

  /** Waits for approval. Returns the result of a refused call; undefined if it may run, or the turn was stopped. */
  async refusal(call: FunctionCall, signal: AbortSignal): Promise<ToolAnswer | undefined> {
    const request = this.#requests.get(call.id)
    if (request === undefined) return undefined
    if ('error' in request) return failedAnswer(call.name, request.error, this.#options.onError)
    const answer = await this.answerTo(call.call_id, request.id, signal)
    if (answer?.approved !== false) return undefined
    return { output: declined(answer), success: false }
  }

  /** Calls `stop` when the turn waits for an approval, now or later. */
  close(stop: () => void): void {
    this.#stop = stop
    if (this.#waiting > 0) stop()
  }

  /** Waits for an answer and reports it. Undefined when `signal` aborts first. */
  async answerTo(
    callId: string,
    approvalId: string,
    signal: AbortSignal,
  ): Promise<ApprovalDecision | undefined> {
    const answer = await this.#waitForAnswer(approvalId, signal)
    if (answer === undefined || signal.aborted) return undefined
    await this.#options.onAnswer(callId, approvalId, answer)
    return answer
  }

  /** Waits for an answer, or for the time limit, which declines. */
  async #waitForAnswer(
    approvalId: string,
    signal: AbortSignal,
  ): Promise<ApprovalDecision | undefined> {
    const { log, lease, clock, caps } = this.#options
    const waiting = new AbortController()
    const forgetTurn = onAbort(signal, () => waiting.abort())
    const cancelTimer = clock.after(caps.maxApprovalTimeMs, () => waiting.abort())
    this.#waiting += 1
    this.#stop?.()
    try {
      while (!signal.aborted) {
        const isLate = waiting.signal.aborted
        const answer = isLate
          ? await ifNotAborted(this.#declineLate(approvalId), signal)
          : await ifNotAborted(
              log.keyedRecords.watch(lease, approvalId, waiting.signal).then(decodeAnswer),
              waiting.signal,
            )
        if (answer !== undefined) return answer
        // After a failure of the store. The renewal of the lease decides when an outage is too long.
        if (isLate === waiting.signal.aborted) await pause(RETRY_MS, clock, signal)
      }
      return undefined
    } finally {
      this.#waiting -= 1
      cancelTimer()
      forgetTurn()
    }
  }

  /** Returns the answer that came first. */
  async #declineLate(approvalId: string): Promise<ApprovalDecision | undefined> {
    const { log, lease, clock } = this.#options
    const late = { approved: false, reason: TIMEOUT, at: Math.trunc(clock.now()) }
    return (await answerApproval(log, lease.turnId, approvalId, late)).answer
  }
}

/** Returns undefined when the work fails, or does not end before `signal` aborts. */
function ifNotAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return untilAborted(work, signal).catch(() => undefined)
}

function declined({ reason = '', by }: ApprovalDecision): string {
  if (by === undefined && reason === TIMEOUT)
    return 'The call was declined: it was not approved in time.'
  return reason === '' ? 'The call was declined.' : `The call was declined: ${reason}`
}
