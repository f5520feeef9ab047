import { type OpenItem, openItem } from '../items/open-items.ts'
import { outputItemIds } from '../protocol/item-ids.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { ErrorObject, ItemType, StreamEventPayload, Usage } from '../protocol/stream-event.ts'
import { type Fields, isEmpty, Malformed } from './fields.ts'

/** Inputs of a translation, which reads neither clock nor network. */
export interface TranslationContext {
  /** Run of the first response; later ones in the same input get a suffix. */
  runId: string
  turnId: string
  threadId: string
  providerId: string
  /** The requested model; the vendor's own name takes precedence. */
  modelId: string
  /** Generates the ids of all items. By default each response numbers its own. */
  nextItemId?: (() => string) | undefined
  now: () => number
  /** Called once per unknown vendor event type. */
  onUnknown?: ((type: string) => void) | undefined
  /** Maximum characters of one tool call's arguments. */
  maxArgumentChars?: number | undefined
  /** The vendor's ids of earlier responses in the thread. */
  responseIds?: ReadonlySet<string> | undefined
  /** Redacts secrets from errors before they are written. */
  conceal?: ((error: ErrorObject) => ErrorObject) | undefined
}

/** Translates one vendor's stream: vendor events in, payloads out. Does no I/O, never waits and never throws. */
export interface Translation {
  translate(event: unknown): readonly StreamEventPayload[]
  /** The input ended. A response that has not ended is truncated, or failed with `fault` if the reason is known. */
  end(fault?: ErrorObject): readonly StreamEventPayload[]
}

export function isTerminal({ type }: StreamEventPayload): boolean {
  return type === 'response_done' || type === 'response_error' || type === 'turn_aborted_by_user'
}

/** Why a response ended, the same for all vendors. */
export type FinishReason =
  | 'stop'
  | 'length'
  | 'tool_calls'
  | 'content_filter'
  | 'refusal'
  | 'pause'
  | 'other'

// Type names are untrusted: an unbounded set would let a broken source fill the memory.
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

// Some vendors refuse ids longer than 40 characters or with other characters.
const MAX_RUN_CHARS = 24
const NOT_ALPHANUMERIC = /[^a-zA-Z0-9]/g

/** Creates ids for calls without one: deterministic per run, distinct between runs. */
export function callIdsOf(runId: string): () => string {
  const run = runId.replaceAll(NOT_ALPHANUMERIC, '').slice(-MAX_RUN_CHARS)
  let next = 0
  return () => {
    next += 1
    return `call_${run}_${next}`
  }
}

// Bounds memory: a runaway call could otherwise use more than all other turns together.
export const MAX_ARGUMENT_CHARS = 1_000_000

export function tooLarge(call: string, maxArgumentChars: number): ErrorObject {
  const message = `the arguments of ${call} exceed ${maxArgumentChars} characters`
  return { code: 'TOOL_ARGUMENTS_TOO_LARGE', message }
}

type StartFields = Omit<StreamEventPayload<'item_start'>, 'type' | 'item_id' | 'item_type'>

/** Final fields of an item; missing ones are taken from the stream. */
export interface FinalFields {
  /** The complete text, or the complete arguments of a call. */
  content?: string | undefined
  name?: string | undefined
  call_id?: string | undefined
  success?: boolean
  provider_metadata?: Fields
}

/**
 * Writes responses as StreamEvent payloads. A response starts and ends once, an item is open before it grows, nothing
 * follows an end, and a failure ends open items. Items have a key that is stable in the vendor's stream.
 */
export class ResponseWriter {
  readonly nextCallId: () => string
  readonly reportUnknown: (type: string) => void
  readonly maxArgumentChars: number
  readonly #context: TranslationContext
  readonly #open = new Map<string, OpenItem>()
  #payloads: StreamEventPayload[] = []
  #phase: 'before' | 'open' | 'ended' = 'before'
  #responses = 0
  #nextItemId: () => string
  #usage: Usage | undefined
  #reported: Usage | undefined

  constructor(context: TranslationContext) {
    this.#context = context
    this.#nextItemId = outputItemIds(context.runId)
    this.nextCallId = callIdsOf(context.runId)
    this.reportUnknown = oncePerType(context.onUnknown)
    this.maxArgumentChars = context.maxArgumentChars ?? MAX_ARGUMENT_CHARS
  }

  /** The vendor's id of this response, made unique: some servers repeat one id for ever. */
  uniqueResponseId(id: string): string {
    return this.#context.responseIds?.has(id) === true ? `${id}:${this.#responseId()}` : id
  }

  drain(): readonly StreamEventPayload[] {
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

  /** Starts a response unless one is open. After an end this is the next one. */
  start(modelId: string = this.#context.modelId): void {
    if (this.#phase === 'open') return
    const { threadId, providerId, now } = this.#context
    this.#responses += 1
    this.#nextItemId = this.#context.nextItemId ?? outputItemIds(this.#responseId())
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

  /** Opens an item unless it is open. Starts the response if necessary. */
  openItem(key: string, type: ItemType, fields: StartFields = {}): void {
    if (this.#phase === 'ended' || this.#open.has(key)) return
    this.start()
    const { provider_metadata, ...rest } = fields
    const start: StreamEventPayload<'item_start'> = {
      type: 'item_start',
      item_id: this.#nextItemId(),
      item_type: type,
      ...rest,
      ...(provider_metadata && !isEmpty(provider_metadata) && { provider_metadata }),
    }
    this.#open.set(key, openItem(start))
    this.#payloads.push(start)
  }

  /** Appends to an open item; ignored for others. A call whose arguments exceed the limit fails. */
  append(key: string, text: string): void {
    const item = this.#open.get(key)
    if (item === undefined || text === '') return
    const { item_type, item_id } = item.start
    if (item_type === 'function_call' && item.text.length + text.length > this.maxArgumentChars) {
      this.#failTooLarge(key, item)
      return
    }
    item.text.append(text)
    this.#payloads.push({ type: 'item_delta', item_id, delta_content: text })
  }

  textOf(key: string): string {
    return this.#open.get(key)?.text.toString() ?? ''
  }

  finishItem(key: string, fields: FinalFields = {}): void {
    const item = this.#open.get(key)
    if (item === undefined) return
    this.#open.delete(key)
    const final_item = finalItem(item, fields)
    this.#payloads.push({ type: 'item_done', item_id: final_item.id, final_item })
  }

  /** Like `finishItem`, for a call whose arguments may exceed the limit. Returns whether it succeeded. */
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

  failItem(key: string, cause: ErrorObject): void {
    const item = this.#open.get(key)
    if (item === undefined) return
    this.#open.delete(key)
    const error = this.#conceal(cause)
    this.#payloads.push({ type: 'item_error', item_id: item.start.item_id, error })
  }

  #conceal(error: ErrorObject): ErrorObject {
    return this.#context.conceal?.(error) ?? error
  }

  /** Ends open items of an abandoned attempt. */
  cancelOpenItems(reason: string): void {
    for (const { start } of this.#open.values()) {
      this.#payloads.push({ type: 'item_cancelled', item_id: start.item_id, reason })
    }
    this.#open.clear()
  }

  setUsage(usage: Usage): void {
    this.#usage = usage
  }

  /** Writes the usage so far, if it is news. */
  reportUsage(): void {
    const usage = this.#usage
    if (usage === undefined || usage === this.#reported) return
    this.#reported = usage
    this.#payloads.push({ type: 'usage_update', response_id: this.#responseId(), usage })
  }

  /** Ends the response, for any reason. Open items are completed with their text so far. */
  finish(reason: FinishReason, providerReason: string | null, stopSequence?: string): void {
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
      ...(stopSequence !== undefined && { stop_sequence: stopSequence }),
      ...(this.#usage !== undefined && { usage: this.#usage }),
    })
  }

  fail(cause: ErrorObject): void {
    if (this.#phase === 'ended') return
    this.start()
    for (const key of this.#open.keys()) this.failItem(key, cause)
    const error = this.#conceal(cause)
    this.#endWithoutDone({ type: 'response_error', response_id: this.#responseId(), error })
  }

  /** The client cancelled the response: open items are cancelled, finished ones stay. */
  abort(reason: string): void {
    if (this.#phase === 'ended') return
    this.start()
    this.cancelOpenItems(reason)
    this.#endWithoutDone({ type: 'turn_aborted_by_user', turn_id: this.#turnId(), reason })
  }

  /** Only `response_done` carries usage. */
  #endWithoutDone(end: StreamEventPayload): void {
    this.#phase = 'ended'
    this.reportUsage()
    this.#payloads.push(end)
  }

  /** The input ended: an open response is truncated. */
  endInput(fault?: ErrorObject): void {
    if (this.#phase === 'ended' && fault === undefined) return
    const message = 'The provider stream ended early'
    this.fail(fault ?? { code: 'UPSTREAM_TRUNCATED', message })
  }
}

/** A translation that writes to a ResponseWriter. A malformed event fails the response. */
export abstract class WriterTranslation implements Translation {
  protected readonly writer: ResponseWriter

  constructor(context: TranslationContext, writer = new ResponseWriter(context)) {
    this.writer = writer
  }

  translate(event: unknown): readonly StreamEventPayload[] {
    try {
      this.apply(event)
    } catch (error) {
      const reason = error instanceof Malformed ? error.message : 'it is malformed'
      this.failMalformed(reason, event)
    }
    return this.writer.drain()
  }

  end(fault?: ErrorObject): readonly StreamEventPayload[] {
    this.close(fault)
    return this.writer.drain()
  }

  /** Throws `Malformed` before writing anything of the event. */
  protected abstract apply(event: unknown): void

  /** Nothing more follows in the response. */
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

function finalItem({ text, start }: OpenItem, fields: FinalFields): OutputItem {
  const { item_id: id, item_type: type } = start
  const metadata = { ...start.provider_metadata, ...fields.provider_metadata }
  const common = { id, ...(!isEmpty(metadata) && { provider_metadata: metadata }) }
  const content = fields.content ?? text.toString()
  const call_id = fields.call_id ?? start.call_id ?? ''
  switch (type) {
    case 'message':
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
