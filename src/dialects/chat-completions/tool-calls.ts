import { isExecutedByProvider } from '../../protocol/item-marks.ts'
import { parseJsonSafe } from '../../protocol/json.ts'
import type { OutputItem } from '../../protocol/output-item.ts'
import type { ErrorObject, StreamEventPayload } from '../../protocol/stream-event.ts'
import { type ChatToolCallDelta, codedError } from './wire.ts'

type FunctionCall = Extract<OutputItem, { type: 'function_call' }>
type Deltas = readonly ChatToolCallDelta[]

interface Call {
  /** Index among the calls that the client knows; undefined until the call is sent. */
  index: number | undefined
  id: string
  name: string
  /** The arguments that the client has received. */
  sent: string
  /** What the client has not received yet. */
  waiting: string
  open: boolean
}

const NOTHING: Deltas = []

/**
 * The calls of one response as the client sees them. A call is sent as soon as its id and name are known; its
 * arguments wait until then. A call that has an output by then is never sent.
 *
 * Methods that return deltas return what to send now.
 */
export class ToolCalls {
  readonly #calls = new Map<string, Call>()
  readonly #answered = new Set<string>()
  #shown = 0
  #failure: ErrorObject | undefined

  /** Why the client cannot rely on the calls it received, or missed one. */
  get failure(): ErrorObject | undefined {
    return this.#failure
  }

  /** The arguments of the sent calls, as far as they were sent. */
  get shownArguments(): string[] {
    const shown = Array.from(this.#calls.values()).filter(({ index }) => index !== undefined)
    return shown.map(({ sent }) => sent)
  }

  open(itemId: string, payload: StreamEventPayload<'item_start'>): Deltas {
    const { call_id = '', name = '', initial_content: content = '' } = payload
    return this.#next(this.#add(itemId, call_id, name, payload.arguments ?? content))
  }

  grow(itemId: string, piece: string): Deltas {
    const call = this.#calls.get(itemId)
    if (call === undefined) return NOTHING
    call.waiting += piece
    return this.#next(call)
  }

  /** Also accepts a call that was not opened. */
  finish(itemId: string, final: FunctionCall): Deltas {
    const call = this.#calls.get(itemId) ?? this.#add(itemId, '', '', '')
    if (call.index === undefined) {
      call.id = final.call_id || call.id
      call.name = final.name || call.name
      call.open = !isExecutedByProvider(final.provider_metadata)
      if (!call.open) return NOTHING
    }
    return this.#complete(itemId, call, final.arguments)
  }

  /** Finishes all open calls. */
  finishAll(): ChatToolCallDelta[] {
    const open = Array.from(this.#calls).filter(([, call]) => call.open)
    return open.flatMap(([itemId, call]) => this.#complete(itemId, call, ''))
  }

  /** Without an error the client would take the rest for a complete answer. */
  fail(itemId: string, error: ErrorObject): void {
    const call = this.#calls.get(itemId)
    if (call === undefined || this.#isHidden(call)) return
    call.open = false
    this.#failure ??= error
  }

  /** A call that is cancelled before it was sent is never sent. */
  cancel(itemId: string, reason: string | undefined): void {
    const call = this.#calls.get(itemId)
    if (call === undefined) return
    call.open = false
    if (call.index === undefined) return
    this.#failure ??= codedError('ITEM_CANCELLED', reason ?? `call "${call.id}"`)
  }

  /** The call already has its output: the provider or server ran it. */
  answer(callId: string | undefined): void {
    if (callId !== undefined && callId !== '') this.#answered.add(callId)
  }

  #add(itemId: string, id: string, name: string, waiting: string): Call {
    const call: Call = { index: undefined, id, name, sent: '', waiting, open: true }
    this.#calls.set(itemId, call)
    return call
  }

  #complete(itemId: string, call: Call, final: string): Deltas {
    call.open = false
    call.id ||= itemId
    const whole = final || call.sent + call.waiting || '{}'
    if (whole.startsWith(call.sent)) {
      call.waiting = whole.slice(call.sent.length)
    } else if (!isSameJson(whole, call.sent)) {
      const detail = `the arguments of call "${call.id}" changed after they were sent`
      this.#failure ??= codedError('STREAM_ERROR', detail)
    }
    return this.#next(call)
  }

  #next(call: Call): Deltas {
    const opening = call.index === undefined
    if (opening && (this.#answered.has(call.id) || !isKnown(call))) return NOTHING
    call.index ??= this.#shown++
    const deltas: ChatToolCallDelta[] = []
    const { index, id, name, waiting } = call
    if (opening) deltas.push({ index, id, type: 'function', function: { name, arguments: '' } })
    if (waiting !== '') deltas.push({ index, function: { arguments: waiting } })
    call.sent += waiting
    call.waiting = ''
    return deltas
  }

  /** Returns whether the call ended or was answered before it was sent. */
  #isHidden({ index, id, open }: Call): boolean {
    return index === undefined && (!open || this.#answered.has(id))
  }
}

/** An ended call gets no more information. */
function isKnown({ id, name, open }: Call): boolean {
  return !open || (id !== '' && name !== '')
}

/** Vendors that repeat the arguments at the end may format them differently. */
function isSameJson(one: string, other: string): boolean {
  return JSON.stringify(parseJsonSafe(one)) === JSON.stringify(parseJsonSafe(other))
}
