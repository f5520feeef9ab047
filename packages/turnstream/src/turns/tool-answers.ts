/** Which calls of a thread the outputs of a submit answer. */

import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import { isExecutedByProvider } from '@turnstream/core/internal/items/marks'
import { type ErrorCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { clientCallId } from '@turnstream/core/internal/protocol/ids'
import { isInputItem } from '@turnstream/core/internal/protocol/item-ids'
import type { OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type { ResponseItem } from '@turnstream/core/internal/protocol/response'
import type { AnsweredCall } from '@turnstream/core/internal/protocol/stream-event'
import {
  type EarlierTurns,
  earlierTurns,
  isEndOfHistory,
  MAX_TURNS,
  readStoredItems,
} from './thread-history.ts'
import type { TurnCaps } from './turn-items.ts'
import type { AnsweredCalls } from './turn-request.ts'

type ToolOutput = Extract<OutputItem, { type: 'function_call_output' }>
type StoredCall = Extract<ResponseItem, { type: 'function_call' }>

export interface AnswersRequest extends EarlierTurns {
  /** Items that the request says came before; undefined if it leaves that to the thread. */
  readonly history: readonly OutputItem[] | undefined
  readonly input: readonly OutputItem[]
  /** Whether to accept every output, as vendors' APIs do. */
  readonly isLenient: boolean
  readonly caps: TurnCaps
}

export interface ToolAnswers {
  /** The input without the outputs that the thread already has. */
  readonly input: readonly OutputItem[]
  readonly answers: AnsweredCalls
  /** The newest turn of the thread that was searched, if any; missing if nothing was searched. */
  readonly newest?: string | undefined
}

const NONE: AnsweredCalls = new Map()

/**
 * Finds the newest unanswered call of each output, in as much of the thread as a provider may be sent. Undefined while
 * the thread is running. TOOL_CALL_UNKNOWN, TOOL_CALL_ANSWERED, INPUT_TOO_LARGE.
 */
export async function findAnswers(request: AnswersRequest): Promise<ToolAnswers | undefined> {
  const { log, history, input, isLenient, caps } = request
  if (!input.some(({ type }) => type === 'function_call_output')) return { input, answers: NONE }
  const search = new CallSearch(input)
  // A turn that has ended can be read to its end.
  const { signal } = new AbortController()
  let newest: string | undefined
  let bytes = caps.maxHistoryBytes
  let turns = 0
  for await (const turn of earlierTurns(request)) {
    if (isSliceOver()) await nextSlice()
    newest ??= turn.turnId
    if (turn.status === 'in_progress') return undefined
    if (search.isDone || isEndOfHistory(turn) || turns === MAX_TURNS) break
    const stored = await readStoredItems(log, turn, bytes, signal)
    if (stored === undefined) break
    bytes -= stored.bytes
    turns += 1
    search.add(turn.runId, stored.items)
  }
  if (!isLenient) {
    const calls = history?.filter((item) => item.type === 'function_call') ?? []
    search.refuseUnanswered(new Set(calls.map(clientCallId)))
  }
  const { answers, repeated } = search
  const chars = charsOfAnswers(answers)
  if (chars > caps.maxTurnChars) {
    const detail = `the answered calls have ${chars} characters; the limit is ${caps.maxTurnChars}`
    throw new TurnstreamError('INPUT_TOO_LARGE', detail)
  }
  // A provider that is not sent the thread needs every output of the request.
  const needsAll = isLenient || history !== undefined
  const sent = needsAll ? input : input.filter(({ id }) => !repeated.has(id))
  return { input: sent, answers, newest }
}

/** Returns whether the thread has no newer turns before this one than those that were searched. */
export async function isCurrent(found: ToolAnswers, turns: EarlierTurns): Promise<boolean> {
  if (!('newest' in found)) return true
  for await (const { turnId } of earlierTurns(turns)) return turnId === found.newest
  return found.newest === undefined
}

export function charsOfAnswers(answers: AnsweredCalls): number {
  let chars = 0
  for (const answer of answers.values()) chars += JSON.stringify(answer).length
  return chars
}

/** Takes the turns of a thread, newest first. */
class CallSearch {
  readonly answers = new Map<string, AnsweredCall>()
  /** Ids of outputs that the thread already has. */
  readonly repeated = new Set<string>()
  /** Outputs without a call so far, by `call_id`. */
  readonly #waiting = new Map<string, ToolOutput[]>()
  /** Outputs that have found their call, by `call_id`. */
  readonly #placed = new Map<string, ToolOutput>()
  /** Outputs in the thread by the item id of their call. */
  readonly #stored = new Map<string, ToolOutput>()
  /** Call ids in the history of earlier requests. No card shows these calls. */
  readonly #known = new Set<string>()
  readonly #answered = new Set<string>()

  constructor(input: readonly OutputItem[]) {
    for (const item of input) {
      if (item.type !== 'function_call_output') continue
      const callId = clientCallId(item)
      const outputs = this.#waiting.get(callId) ?? []
      outputs.push(item)
      this.#waiting.set(callId, outputs)
    }
  }

  get isDone(): boolean {
    return this.#waiting.size === 0
  }

  add(runId: string, items: readonly ResponseItem[]): void {
    for (const item of items.toReversed()) {
      if (item.type === 'function_call_output' && item.answers !== undefined) {
        this.#stored.set(item.answers.item_id, item)
      } else if (item.type === 'function_call' && this.#waiting.has(clientCallId(item))) {
        if (isInputItem(runId, item.id)) this.#known.add(clientCallId(item))
        else if (isForClient(item)) this.#meet(item)
      }
    }
  }

  /** Throws for an output that answers nothing, unless its call is among those of the request. */
  refuseUnanswered(given: ReadonlySet<string>): void {
    for (const [callId, outputs] of this.#waiting) {
      if (given.has(callId)) continue
      for (const output of outputs) {
        const placed = this.#placed.get(callId)
        if (placed !== undefined && isSame(placed, output)) this.repeated.add(output.id)
        else if (placed !== undefined || this.#answered.has(callId)) {
          throw refusal('TOOL_CALL_ANSWERED', callId)
        } else if (!this.#known.has(callId)) throw refusal('TOOL_CALL_UNKNOWN', callId)
      }
    }
  }

  #meet(call: StoredCall): void {
    const { id: item_id, name, arguments: text } = call
    const callId = clientCallId(call)
    const waiting = this.#waiting.get(callId) ?? []
    const stored = this.#stored.get(item_id)
    const found = stored === undefined ? waiting[0] : waiting.find((each) => isSame(each, stored))
    if (stored !== undefined) this.#answered.add(callId)
    if (found === undefined) return
    if (stored === undefined) this.answers.set(found.id, { item_id, name, arguments: text })
    else this.repeated.add(found.id)
    this.#placed.set(callId, found)
    const others = waiting.filter((each) => each !== found)
    if (others.length > 0) this.#waiting.set(callId, others)
    else this.#waiting.delete(callId)
  }
}

/** Whether the call was finished and left to the client. */
function isForClient(call: StoredCall): boolean {
  if (call.error !== undefined || call.cancelled !== undefined) return false
  return !isExecutedByProvider(call.provider_metadata)
}

function isSame(one: ToolOutput, other: ToolOutput): boolean {
  return one.output === other.output && one.success === other.success
}

function refusal(code: ErrorCode, callId: string): TurnstreamError {
  return new TurnstreamError(code, JSON.stringify(callId.slice(0, 200)))
}
