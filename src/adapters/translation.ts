import { GrowingText } from '../async/growing-text.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { ErrorObject, ItemType, StreamEventPayload, Usage } from '../protocol/stream-event.ts'
import { type Fields, isEmpty, Malformed } from './fields.ts'

/** What a translation needs from outside, since it reads neither clock nor network. */
export interface TranslationContext {
  /** The run of the first response; later ones in the same input get a suffix. */
  runId: string
  turnId: string
  threadId: string
  providerId: string
  /** The requested model; the one that the vendor names wins. */
  modelId: string
  now: () => number
  /** Called for vendor event types that are unknown, once for each type. */
  onUnknown?: ((type: string) => void) | undefined
  /** Cap for the arguments of one tool call. */
  maxArgumentChars?: number | undefined
  /** Changes errors before they are written, to keep secrets out of them. */
  conceal?: ((error: ErrorObject) => ErrorObject) | undefined
}

/**
 * The meaning of one vendor's stream: vendor events in, payloads out. It does no I/O, never waits, and never
 * throws, whatever goes in.
 */
export interface Translation {
  translate(event: unknown): readonly StreamEventPayload[]
  /**
   * The input has ended. Nothing follows a response that has ended; any other is truncated, or failed with `fault`
   * if the reason is known.
   */
  end(fault?: ErrorObject): readonly StreamEventPayload[]
}

/** Whether a payload is the end of its response. */
export function isTerminal({ type }: StreamEventPayload): boolean {
  return type === 'response_done' || type === 'response_error' || type === 'turn_aborted_by_user'
}

/** Why a response ended, in one vocabulary for all vendors. */
export type FinishReason =
  | 'stop'
  | 'length'
  | 'tool_calls'
  | 'content_filter'
  | 'refusal'
  | 'pause'
  | 'other'

// Type names come from outside. Past this many the source is broken, and storing more would let it fill the memory.
const MAX_TYPES = 1000

/** Reports each type once, and at most 1,000 of them. */
export function oncePerType(report: (type: string) => void = () => {}): (type: string) => void {
  const reported = new Set<string>()
  return (type) => {
    if (reported.size >= MAX_TYPES || reported.has(type)) return
    reported.add(type)
    report(type)
  }
}

// Some vendors refuse ids of more than 40 characters, or of any but these.
const MAX_RUN_CHARS = 24
const NOT_ALPHANUMERIC = /[^a-zA-Z0-9]/g

/** Ids for calls that came without one: the same for the same run, different from those of any other. */
export function callIdsOf(runId: string): () => string {
  const run = runId.replaceAll(NOT_ALPHANUMERIC, '').slice(-MAX_RUN_CHARS)
  let next = 0
  return () => {
    next += 1
    return `call_${run}_${next}`
  }
}

// Providers bill by token but we hold characters: past this a runaway call would cost more memory
// than every other turn of a machine together.
export const MAX_ARGUMENT_CHARS = 1_000_000

/** The error of a call whose arguments pass the cap. */
export function tooLarge(call: string, maxArgumentChars: number): ErrorObject {
  const message = `the arguments of ${call} exceed ${maxArgumentChars} characters`
  return { code: 'TOOL_ARGUMENTS_TOO_LARGE', message }
}

type StartFields = Omit<StreamEventPayload<'item_start'>, 'type' | 'item_id' | 'item_type'>

/** What the vendor said at the end of an item; what it did not say is taken from what was streamed. */
export interface FinalFields {
  /** The whole text, or the whole arguments of a call. */
  content?: string | undefined
  name?: string | undefined
  call_id?: string | undefined
  success?: boolean
  provider_metadata?: Fields
}

interface OpenItem {
  id: string
  type: ItemType
  text: GrowingText
  start: StartFields
}

/**
 * Writes one response after another as StreamEvent payloads, and keeps what must hold for all vendors:
 * a response starts once and ends once, an item is open before it grows, nothing follows an end, and
 * what breaks takes its open items with it. Items go by a key that is stable in the vendor's stream.
 */
export class ResponseWriter {
  /** Ids for calls that the vendor gives none. */
  readonly nextCallId: () => string
  /** Reports a type that the translation does not know. */
  readonly reportUnknown: (type: string) => void
  /** Cap for the arguments of one call. */
  readonly maxArgumentChars: number
  readonly #context: TranslationContext
  readonly #open = new Map<string, OpenItem>()
  #payloads: StreamEventPayload[] = []
  #phase: 'before' | 'open' | 'ended' = 'before'
  #responses = 0
  #items = 0
  #usage: Usage | undefined

  constructor(context: TranslationContext) {
    this.#context = context
    this.nextCallId = callIdsOf(context.runId)
    this.reportUnknown = oncePerType(context.onUnknown)
    this.maxArgumentChars = context.maxArgumentChars ?? MAX_ARGUMENT_CHARS
  }

  /** The payloads since the last call. */
  take(): readonly StreamEventPayload[] {
    const payloads = this.#payloads
    if (payloads.length > 0) this.#payloads = []
    return payloads
  }

  get isOpen(): boolean {
    return this.#phase === 'open'
  }

  get hasEnded(): boolean {
    return this.#phase === 'ended'
  }

  /** Begins a response unless one is open. After an end this is the next one. */
  start(modelId: string = this.#context.modelId): void {
    if (this.#phase === 'open') return
    const { threadId, providerId, now } = this.#context
    this.#responses += 1
    this.#items = 0
    this.#usage = undefined
    this.#phase = 'open'
    this.#payloads.push({
      type: 'response_start',
      response_id: this.#responseId(),
      turn_id: this.#turnId(),
      thread_id: threadId,
      model_id: modelId,
      provider_id: providerId,
      created_at: now(),
    })
  }

  #responseId(): string {
    const { runId } = this.#context
    return this.#responses === 1 ? runId : `${runId}-${this.#responses}`
  }

  #turnId(): string {
    return this.#responses === 1 ? this.#context.turnId : this.#responseId()
  }

  isOpenItem(key: string): boolean {
    return this.#open.has(key)
  }

  /** Opens an item unless it is open. Before the response has begun this begins it. */
  openItem(key: string, type: ItemType, fields: StartFields = {}): void {
    if (this.#phase === 'ended' || this.#open.has(key)) return
    this.start()
    this.#items += 1
    const id = `${this.#responseId()}:${this.#items}`
    const text = new GrowingText(fields.initial_content)
    this.#open.set(key, { id, type, text, start: fields })
    const { provider_metadata, ...rest } = fields
    this.#payloads.push({
      type: 'item_start',
      item_id: id,
      item_type: type,
      ...rest,
      ...(provider_metadata && !isEmpty(provider_metadata) && { provider_metadata }),
    })
  }

  /** Adds to an open item; to one that is not, nothing. A call whose arguments pass the cap fails. */
  append(key: string, text: string): void {
    const item = this.#open.get(key)
    if (item === undefined || text === '') return
    if (item.type === 'function_call' && item.text.length + text.length > this.maxArgumentChars) {
      this.#failTooLarge(key, item)
      return
    }
    item.text.append(text)
    this.#payloads.push({ type: 'item_delta', item_id: item.id, delta_content: text })
  }

  /** The text of an open item so far. */
  textOf(key: string): string {
    return this.#open.get(key)?.text.toString() ?? ''
  }

  finishItem(key: string, fields: FinalFields = {}): void {
    const item = this.#open.get(key)
    if (item === undefined) return
    this.#open.delete(key)
    const final_item = finalItem(item, fields)
    this.#payloads.push({ type: 'item_done', item_id: item.id, final_item })
  }

  /** Like `finishItem`, for a call whose arguments may pass the cap. Returns whether it succeeded. */
  finishCall(key: string, fields: FinalFields): boolean {
    const item = this.#open.get(key)
    if (item === undefined) return false
    const isTooLarge = (fields.content?.length ?? 0) > this.maxArgumentChars
    if (isTooLarge) this.#failTooLarge(key, item)
    else this.finishItem(key, fields)
    return !isTooLarge
  }

  #failTooLarge(key: string, { start: { name, call_id = '' } }: OpenItem): void {
    this.failItem(key, tooLarge(name || call_id, this.maxArgumentChars))
  }

  failItem(key: string, error: ErrorObject): void {
    this.#failItem(key, this.#conceal(error))
  }

  #failItem(key: string, error: ErrorObject): void {
    const item = this.#open.get(key)
    if (item === undefined) return
    this.#open.delete(key)
    this.#payloads.push({ type: 'item_error', item_id: item.id, error })
  }

  #conceal(error: ErrorObject): ErrorObject {
    return this.#context.conceal?.(error) ?? error
  }

  /** Open items of an attempt that the vendor abandoned. */
  cancelOpenItems(reason: string): void {
    for (const { id } of this.#open.values()) {
      this.#payloads.push({ type: 'item_cancelled', item_id: id, reason })
    }
    this.#open.clear()
  }

  /** Remembers the usage so far; the end of the response carries it. */
  setUsage(usage: Usage): void {
    this.#usage = usage
  }

  /** The response came to its end, whatever the reason: items still open are done as they are. */
  finish(reason: FinishReason, providerReason: string | null): void {
    if (this.#phase === 'ended') return
    this.start()
    for (const key of this.#open.keys()) this.finishItem(key)
    this.#phase = 'ended'
    this.#payloads.push({
      type: 'response_done',
      response_id: this.#responseId(),
      status: 'complete',
      finish_reason: reason,
      provider_finish_reason: providerReason,
      ...(this.#usage !== undefined && { usage: this.#usage }),
    })
  }

  /** The response broke, and its open items with it. */
  fail(cause: ErrorObject): void {
    if (this.#phase === 'ended') return
    this.start()
    const error = this.#conceal(cause)
    for (const key of this.#open.keys()) this.#failItem(key, error)
    this.#endWithoutDone({ type: 'response_error', response_id: this.#responseId(), error })
  }

  /** The client stopped the response: open items are cancelled, finished ones stay. */
  abort(reason: string): void {
    if (this.#phase === 'ended') return
    this.start()
    this.cancelOpenItems(reason)
    this.#endWithoutDone({ type: 'turn_aborted_by_user', turn_id: this.#turnId(), reason })
  }

  /** Only `response_done` has room for the usage. */
  #endWithoutDone(end: StreamEventPayload): void {
    this.#phase = 'ended'
    const usage = this.#usage
    if (usage !== undefined) {
      this.#payloads.push({ type: 'usage_update', response_id: this.#responseId(), usage })
    }
    this.#payloads.push(end)
  }

  /** The input is over: a response that has not ended by now has lost its end. */
  endInput(fault?: ErrorObject): void {
    if (this.#phase === 'ended' && fault === undefined) return
    this.fail(
      fault ?? {
        code: 'UPSTREAM_TRUNCATED',
        message: 'The provider stream ended early',
      },
    )
  }
}

/** A translation that writes to a ResponseWriter. An event that cannot be read fails the response. */
export abstract class WriterTranslation implements Translation {
  protected readonly writer: ResponseWriter

  constructor(context: TranslationContext) {
    this.writer = new ResponseWriter(context)
  }

  translate(event: unknown): readonly StreamEventPayload[] {
    try {
      this.take(event)
    } catch (error) {
      const reason = error instanceof Malformed ? error.message : 'it cannot be read'
      this.failMalformed(reason, event)
    }
    return this.writer.take()
  }

  end(fault?: ErrorObject): readonly StreamEventPayload[] {
    this.close(fault)
    return this.writer.take()
  }

  /** Throws `Malformed` before it has written anything of the event. */
  protected abstract take(event: unknown): void

  /** Nothing more comes of the response. */
  protected close(fault?: ErrorObject): void {
    this.writer.endInput(fault)
  }

  protected failMalformed(reason: string, _event: unknown): void {
    this.fail({ code: 'UPSTREAM_MALFORMED', message: reason })
  }

  protected fail(error: ErrorObject): void {
    this.writer.fail(error)
  }
}

function finalItem({ id, type, text, start }: OpenItem, fields: FinalFields): OutputItem {
  const metadata = { ...start.provider_metadata, ...fields.provider_metadata }
  const common = { id, ...(!isEmpty(metadata) && { provider_metadata: metadata }) }
  const content = fields.content ?? text.toString()
  const call_id = fields.call_id ?? start.call_id ?? ''
  switch (type) {
    case 'message':
      return { type, ...common, content, origin: start.origin ?? 'agent' }
    case 'reasoning':
      return { type, ...common, content, origin: start.origin ?? 'agent' }
    case 'function_call': {
      const name = fields.name ?? start.name ?? ''
      return { type, ...common, name, arguments: content === '' ? '{}' : content, call_id }
    }
    case 'function_call_output':
      return { type, ...common, call_id, output: content, success: fields.success ?? true }
    case 'error':
      return { type, ...common, code: start.code ?? '', message: content }
  }
}
