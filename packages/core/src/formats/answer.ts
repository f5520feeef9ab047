import { isExecutedByProvider, isRefusal } from '../items/marks.ts'
import { textOf } from '../items/text.ts'
import { ERROR_CODES, type ErrorCode } from '../protocol/errors.ts'
import { isInputItem, isPromptItem } from '../protocol/item-ids.ts'
import { isRecord, parseJsonSafe } from '../protocol/json.ts'
import type { FunctionCall, OutputItem } from '../protocol/output-item.ts'
import type {
  ErrorObject,
  StreamEvent,
  StreamEventPayload,
  Usage,
} from '../protocol/stream-event.ts'
import { normalizeEvent, type StartedItem } from '../protocol/stream-event-guard.ts'

/** An item of a response that a vendor dialect shows. */
export interface AnswerItem {
  /** Its id in the log. */
  readonly id: string
  readonly kind: 'text' | 'refusal' | 'reasoning' | 'call'
  /** The content: what `grow` has reported, and when the item ends the final one. The arguments of a call. */
  text: string
  /** Whether the final content does not start with what `grow` has reported. */
  isRewritten: boolean
  callId: string
  name: string
  metadata: Metadata | undefined
  /** Whether `open` has reported it. A call is held until its id and name are known. */
  isOpen: boolean
}

/** How an item ended. `cut`: with the turn. `withdrawn`: the provider started again. */
export type AnswerItemEnd = 'done' | 'cut' | 'failed' | 'withdrawn'

export type AnswerEnd = { readonly usage: Usage | undefined; readonly at: number } & (
  | {
      readonly kind: 'done'
      readonly finishReason: string
      readonly providerReason: string
      /** The text that ended it, if the provider reports it. */
      readonly stopSequence: string | null
    }
  | { readonly kind: 'failed'; readonly error: ErrorObject }
  | { readonly kind: 'cancelled'; readonly reason: string }
)

/** Receives a response: items open before they grow, and close before the end. */
export interface AnswerSink {
  /** Whether its client receives nothing before the end, so what is withdrawn leaves no trace. */
  readonly isRetractable?: boolean
  start?(payload: StreamEventPayload<'response_start'>): void
  /** The name and id of a call are known. A text opens with its first character, or when it ends without any. */
  open(item: AnswerItem): void
  grow?(item: AnswerItem, piece: string): void
  close(item: AnswerItem, how: AnswerItemEnd, reason?: string): void
  /** An item without content that only its vendor can read. */
  opaque?(metadata: Metadata): void
  /** The call has an output: the provider or this server ran it. */
  answered?(callId: string): void
  usage?(usage: Usage): void
  /** So many more characters of input. */
  input?(chars: number): void
  end(end: AnswerEnd): void
}

type Metadata = Record<string, unknown>

type Known = AnswerItem | 'hidden' | 'ended'

type AnswerKind = AnswerItem['kind']

/** For usage that the provider does not report. Clients without a tokenizer also estimate with this. */
export const CHARS_PER_TOKEN = 4

/**
 * Reports what a vendor dialect shows of a response: the agent's texts, its reasoning and the calls that the client must
 * run. Input, calls that the provider or this server runs, and approvals are hidden. Equal events give equal reports.
 */
export class AnswerReader {
  readonly #sink: AnswerSink
  readonly #items = new Map<string, Known>()
  /** Call ids that have an output: the provider or this server ran the call. */
  readonly #answered = new Set<string>()
  #usage: Usage | undefined
  readonly #finishedCalls = new Map<string, AnswerItem>()
  /** Why the client cannot rely on the calls it received, or missed one. */
  #failure: ErrorObject | undefined
  #isOver = false

  constructor(sink: AnswerSink) {
    this.#sink = sink
  }

  /** Whether the response has ended. Later events are ignored. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** Encodes a delta of an open item without a report, in a fraction of the time. Undefined for other events. */
  encodeDelta(event: StreamEvent, encode: (item: AnswerItem, piece: string) => string) {
    if (event.type !== 'item_delta') return undefined
    const { item_id, delta_content: piece } = event.payload
    if (piece === '') return ''
    const item = this.#items.get(item_id)
    if (typeof item !== 'object' || !item.isOpen) return undefined
    item.text += piece
    return encode(item, piece)
  }

  apply(given: StreamEvent): void {
    if (this.#isOver) return
    const event = normalizeEvent(given, { started: this.#soFar }) as StreamEvent
    switch (event.type) {
      case 'response_start':
        return this.#sink.start?.(event.payload)
      case 'item_start':
        if (!isInputItem(event.run_id, event.payload.item_id)) this.#start(event.payload)
        return
      case 'item_delta':
        return this.#grow(event.payload)
      case 'item_done':
        if (isInputItem(event.run_id, event.payload.item_id)) {
          return this.#countInput(event.payload.final_item)
        }
        return this.#finish(event.payload)
      case 'item_error':
        return this.#fail(event.payload.item_id, event.payload.error)
      case 'item_cancelled':
        return this.#withdraw(event.payload.item_id, event.payload.reason)
      case 'usage_update':
        if (event.payload.usage !== undefined) this.#noteUsage(event.payload.usage)
        return
      case 'response_done':
      case 'response_error':
      case 'turn_aborted_by_user':
        return this.#end(event)
      case 'heartbeat':
        return
      default:
        return ignoreUnknown(event)
    }
  }

  /** What the end of an open item may leave out. */
  readonly #soFar = (itemId: string): StartedItem | undefined => {
    const known = this.#items.get(itemId)
    if (typeof known !== 'object') return undefined
    const { kind, text, name, callId: call_id } = known
    if (kind === 'call') return { type: 'function_call', name, arguments: text, call_id }
    return { type: kind === 'reasoning' ? kind : 'message', content: text }
  }

  #noteUsage(usage: Usage): void {
    this.#usage = usage
    this.#sink.usage?.(usage)
  }

  #countInput(item: OutputItem): void {
    if (item.type !== 'reasoning') this.#sink.input?.(textOf(item).length)
  }

  #start(payload: StreamEventPayload<'item_start'>): void {
    const { item_id: id, item_type: type, origin, initial_content: content = '' } = payload
    if (this.#items.has(id)) return
    if (type === 'function_call_output') this.#answer(payload.call_id)
    // The author of a prompt without an origin is known only when it is done.
    if (type === 'message' && origin === undefined && isPromptItem(id)) return
    const kind = kindOf(type, payload)
    if (kind === undefined) {
      this.#items.set(id, 'hidden')
      return
    }
    const { call_id = '', name = '' } = payload
    const item = newItem(id, kind, { callId: call_id, name })
    this.#items.set(id, item)
    const isNamed = call_id !== '' && name !== ''
    if (kind === 'call' && isNamed && !this.#answered.has(call_id)) this.#open(item)
    this.#append(item, kind === 'call' ? (payload.arguments ?? content) : content)
  }

  #grow({ item_id: id, delta_content: piece }: StreamEventPayload<'item_delta'>): void {
    const item = this.#items.get(id)
    if (typeof item === 'object') this.#append(item, piece)
  }

  #finish(payload: StreamEventPayload<'item_done'>): void {
    const { item_id: id, final_item: final } = payload
    let known = this.#items.get(id)
    if (known === 'ended') return
    if (final.type === 'error') return this.#fail(id, final)
    if (final.type === 'cancelled') return this.#withdraw(id, final.reason)
    if (final.type === 'function_call_output') this.#answer(final.call_id)
    // A call that was sent stays a call, even if the provider turns out to have run it.
    const isCall = typeof known === 'object' && known.kind === 'call'
    const kind = isCall && final.type === 'function_call' ? 'call' : kindOf(final.type, final)
    if (typeof known === 'object' && !isSameKind(known.kind, kind)) {
      this.#withdraw(id, undefined)
      known = undefined
    }
    this.#items.set(id, 'ended')
    if (kind === undefined || known === 'hidden') return this.#countPrompt(final)
    const item = known ?? newItem(id, kind)
    item.metadata = final.provider_metadata
    if (final.type === 'function_call') this.#finishCall(item, final)
    else if (final.type === 'message' || final.type === 'reasoning') {
      this.#finishText(item, payload.finish_reason === 'cancelled' ? 'cut' : 'done', final.content)
    }
  }

  /** The origin of a prompt may be known only at its end. */
  #countPrompt(final: OutputItem): void {
    if (final.type === 'message' && final.origin !== 'agent') this.#countInput(final)
  }

  /** The content is missing if no event has said it. */
  #finishText(item: AnswerItem, how: AnswerItemEnd, content = ''): void {
    if (content === '' && !item.isOpen && isOpaque(item.metadata)) {
      return this.#sink.opaque?.(item.metadata)
    }
    this.#complete(item, content, content.startsWith(item.text))
    if (!item.isOpen) this.#open(item)
    this.#sink.close(item, how)
  }

  #finishCall(item: AnswerItem, final: FunctionCall): void {
    const isExecuted = isExecutedByProvider(final.provider_metadata)
    if (item.isOpen && isExecuted && this.#sink.isRetractable) {
      return this.#sink.close(item, 'withdrawn')
    }
    if (!item.isOpen) {
      item.callId = final.call_id || item.callId || item.id
      item.name = final.name || item.name
      if (isExecuted || this.#answered.has(item.callId)) return
      this.#openWithText(item)
    }
    this.#completeCall(item, final.arguments)
  }

  #completeCall(item: AnswerItem, final: string): void {
    const args = final || item.text || '{}'
    const isSame = args.startsWith(item.text)
    // Vendors that repeat the arguments at the end may format them differently.
    if (isSame || !isSameJson(args, item.text)) this.#complete(item, args, isSame)
    this.#finishedCalls.set(item.id, item)
    this.#sink.close(item, 'done')
  }

  #complete(item: AnswerItem, content: string, isContinued: boolean): void {
    if (isContinued) return this.#append(item, content.slice(item.text.length))
    item.isRewritten = true
    item.text = content
  }

  #fail(id: string, error: ErrorObject): void {
    const item = this.#items.get(id)
    this.#items.set(id, 'ended')
    if (this.#finishedCalls.has(id)) this.#failure ??= error
    if (typeof item !== 'object') return
    const isHidden = !item.isOpen && this.#answered.has(item.callId)
    // Without an error the client would take the rest for a complete answer.
    if (item.kind === 'call' && !isHidden) this.#failure ??= error
    if (item.isOpen) this.#sink.close(item, 'failed')
  }

  #withdraw(id: string, reason: string | undefined): void {
    const known = this.#items.get(id)
    const open = typeof known === 'object' && known.isOpen ? known : undefined
    const item = open ?? this.#finishedCalls.get(id)
    this.#items.set(id, 'ended')
    this.#finishedCalls.delete(id)
    if (item === undefined) return
    if (item.kind === 'call' && !this.#sink.isRetractable) {
      this.#failure ??= codedError('ITEM_CANCELLED', reason ?? `call "${item.callId}"`)
    }
    if (item === open || this.#sink.isRetractable) this.#sink.close(item, 'withdrawn', reason)
  }

  #end(event: Extract<StreamEvent, { type: 'response_done' | EarlyEnd }>): void {
    const { payload, timestamp: at } = event
    const usage = payload.usage ?? this.#usage
    if (payload.type === 'response_done' && payload.status === 'complete') {
      this.#completeOpen()
      this.#isOver = true
      if (this.#failure !== undefined) {
        return this.#sink.end({ kind: 'failed', error: this.#failure, usage, at })
      }
      const { finish_reason, provider_finish_reason, stop_sequence } = payload
      return this.#sink.end({
        kind: 'done',
        finishReason: finish_reason ?? '',
        providerReason: provider_finish_reason ?? '',
        stopSequence: stop_sequence ?? null,
        usage,
        at,
      })
    }
    for (const item of this.#unfinished()) if (item.isOpen) this.#sink.close(item, 'cut')
    this.#isOver = true
    this.#sink.end({ ...earlyEnd(payload), usage, at })
  }

  #completeOpen(): void {
    for (const item of this.#unfinished()) {
      if (item.kind === 'call') {
        item.callId ||= item.id
        if (!item.isOpen && this.#answered.has(item.callId)) continue
        if (!item.isOpen) this.#openWithText(item)
        this.#completeCall(item, item.text)
      } else if (item.isOpen) this.#sink.close(item, 'done')
    }
  }

  #unfinished(): AnswerItem[] {
    return [...this.#items.values()].filter((known) => typeof known === 'object')
  }

  #answer(callId: string | undefined): void {
    if (callId === undefined || callId === '') return
    this.#answered.add(callId)
    this.#sink.answered?.(callId)
  }

  #open(item: AnswerItem): void {
    item.isOpen = true
    this.#sink.open(item)
  }

  /** Opens a call whose arguments came before its name. */
  #openWithText(item: AnswerItem): void {
    const { text } = item
    item.text = ''
    this.#open(item)
    this.#append(item, text)
  }

  #append(item: AnswerItem, piece: string): void {
    if (piece === '') return
    if (!item.isOpen && item.kind !== 'call') this.#open(item)
    item.text += piece
    if (item.isOpen) this.#sink.grow?.(item, piece)
  }
}

type EarlyEnd = 'response_error' | 'turn_aborted_by_user'

function newItem(id: string, kind: AnswerKind, { callId = '', name = '' } = {}): AnswerItem {
  const state = { text: '', isRewritten: false, metadata: undefined, isOpen: false }
  return { id, kind, callId, name, ...state }
}

type Described = Pick<StreamEventPayload<'item_start'>, 'origin' | 'provider_metadata'>

function kindOf(type: OutputItem['type'], item: Described): AnswerKind | undefined {
  const { origin = 'agent', provider_metadata: metadata } = item
  switch (type) {
    case 'message':
      if (origin !== 'agent') return undefined
      return isRefusal(metadata) ? 'refusal' : 'text'
    case 'reasoning':
      return origin === 'agent' ? 'reasoning' : undefined
    case 'function_call':
      return isExecutedByProvider(metadata) ? undefined : 'call'
    default:
      return undefined
  }
}

/** Whether an item that started as one kind may end as the other. A message may turn out to be a refusal. */
function isSameKind(one: AnswerKind, other: AnswerKind | undefined): boolean {
  const isMessage = (kind: AnswerKind | undefined) => kind === 'text' || kind === 'refusal'
  return one === other || (isMessage(one) && isMessage(other))
}

/** Types of OpenAI's items that are also a message or reasoning here. */
const OWN_TYPES = new Set<unknown>([undefined, 'message', 'reasoning'])

/** Whether the vendor's item has another type than ours: it can only be sent back to the vendor. */
function isOpaque(metadata: Metadata | undefined): metadata is Metadata {
  const { openai, anthropic } = metadata ?? {}
  if (isRecord(anthropic) && isRecord(anthropic['block'])) return true
  return isRecord(openai) && !OWN_TYPES.has(openai['type'])
}

function earlyEnd(
  payload: StreamEventPayload<'response_done' | EarlyEnd>,
): { kind: 'failed'; error: ErrorObject } | { kind: 'cancelled'; reason: string } {
  if (payload.type === 'response_error') return { kind: 'failed', error: payload.error }
  if (payload.type === 'turn_aborted_by_user' || payload.status === 'aborted') {
    return { kind: 'cancelled', reason: ('reason' in payload && payload.reason) || '' }
  }
  return { kind: 'failed', error: codedError('STREAM_ERROR', 'the response failed') }
}

export function codedError(code: ErrorCode, detail: string): ErrorObject {
  return { code, message: `${ERROR_CODES[code].summary}: ${detail}` }
}

/** The client cannot use arguments that changed after it received them. */
export function changedArguments({ callId }: AnswerItem): ErrorObject {
  const detail = `the arguments of call "${callId}" changed after they were sent`
  return codedError('STREAM_ERROR', detail)
}

/** A cancelled turn is not an answer: clients would store a partial one. */
export function abortError(reason = ''): ErrorObject {
  const why = reason === '' ? '' : `: ${reason}`
  return { code: 'ABORTED' satisfies ErrorCode, message: `The turn was stopped${why}` }
}

function isSameJson(one: string, other: string): boolean {
  return JSON.stringify(parseJsonSafe(one)) === JSON.stringify(parseJsonSafe(other))
}

/** Whether the arguments of a call are complete. */
export function isJson(text: string): boolean {
  return parseJsonSafe(text) !== text
}

/** Does not compile when one of our types is missing; types of later versions are ignored. */
function ignoreUnknown(_event: never): void {}
