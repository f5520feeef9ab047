import { isExecutedByProvider, isInputItem, isRefusal } from '../../protocol/item-marks.ts'
import type { OutputItem } from '../../protocol/output-item.ts'
import type {
  ErrorObject,
  StreamEvent,
  StreamEventPayload,
  Usage,
} from '../../protocol/stream-event.ts'
import { encodeSse } from '../../sse/encode.ts'
import { ToolCalls } from './tool-calls.ts'
import {
  abortError,
  CHUNK_OBJECT,
  type ChatChunk,
  type ChatChunkHead,
  type ChatDelta,
  type ChatFinishReason,
  type ChatFrame,
  type ChatTextField,
  type ChatToolCallDelta,
  type ChatUsage,
  chatError,
  chatFinishReason,
  chatUsage,
  codedError,
  DONE,
} from './wire.ts'

export interface ChatCompletionsOptions {
  id: string
  model: string
  /** Seconds since the epoch. */
  created: number
  /** Sends token usage in a separate chunk, if it is known. Default `false`. */
  includeUsage?: boolean
  /** Also sends text after a tool call, which many clients lose or misplace. Default `false`. */
  keepTextAfterToolCalls?: boolean
  /** Where to put the model's reasoning. Default `reasoning_content`. */
  reasoning?: 'omit' | 'reasoning_content'
  /** Sends the first call as `function_call`, for requests with `functions`. Default `false`. */
  legacyFunctions?: boolean
}

/** Where the content of an item goes. */
type Route = ChatTextField | 'call' | 'nowhere'

const USER_PROMPT_ID = 'user-prompt'

/** Encodes one response, event by event, as Chat Completions chunks. */
export class ChatCompletionsEncoder {
  readonly #options: ChatCompletionsOptions
  readonly #head: ChatChunkHead
  /** The frame of a text delta around the field name and the text. */
  readonly #textFrame: { readonly before: string; readonly after: string }
  readonly #lanes: Record<ChatTextField, TextLane> = {
    reasoning_content: new TextLane(),
    content: new TextLane(),
    refusal: new TextLane(),
  }
  readonly #calls = new ToolCalls()
  readonly #routes = new Map<string, Route | 'ended'>()
  #frames: ChatFrame[] = []
  #phase: 'before' | 'open' | 'done' = 'before'
  #refused = false
  #usage: Usage | undefined
  /** Set when sent text was withdrawn. The client would store what follows as part of the same answer. */
  #withdrawn: ErrorObject | undefined

  constructor(options: ChatCompletionsOptions) {
    const { id, created, model } = options
    this.#options = options
    this.#head = { id, object: CHUNK_OBJECT, created, model }
    const usage = options.includeUsage === true ? ',"usage":null' : ''
    this.#textFrame = {
      before: `data: ${JSON.stringify(this.#head).slice(0, -1)},"choices":[{"index":0,"delta":{"`,
      after: `},"logprobs":null,"finish_reason":null}]${usage}}\n\n`,
    }
  }

  /** Whether the response has ended. Only `[DONE]` follows. */
  get done(): boolean {
    return this.#phase === 'done'
  }

  /** Returns the frames that the event adds, in order. */
  encode(event: StreamEvent): ChatFrame[] {
    if (this.done) return []
    this.#take(event)
    const frames = this.#frames
    this.#frames = []
    return frames
  }

  /** Like `encode`, as SSE text, with `[DONE]` after the end. */
  encodeSse(event: StreamEvent): string {
    if (this.done) return ''
    // Nearly all events are text deltas. Without a chunk object they take an eighth of the time.
    if (event.type === 'item_delta' && this.#phase === 'open' && this.#withdrawn === undefined) {
      const { item_id: id, delta_content: piece } = event.payload
      const route = this.#routes.get(id)
      if (isText(route)) return this.#textSse(route, this.#lanes[route].grow(id, piece))
    }
    const frames = this.encode(event).map((frame) => JSON.stringify(frame))
    if (this.done) frames.push(DONE)
    return frames.map((data) => encodeSse({ data })).join('')
  }

  #textSse(field: ChatTextField, text: string): string {
    if (text === '') return ''
    if (field === 'refusal') this.#refused = true
    const { before, after } = this.#textFrame
    return `${before}${field}":${JSON.stringify(text)}${after}`
  }

  #take(event: StreamEvent): void {
    switch (event.type) {
      case 'response_start':
        return this.#begin()
      case 'item_start':
        if (isInputItem(event.run_id, event.payload.item_id)) return
        return this.#open(event.payload)
      case 'item_delta':
        return this.#grow(event.payload)
      case 'item_done':
        if (isInputItem(event.run_id, event.payload.item_id)) return
        return this.#finish(event.payload)
      case 'item_error':
        return this.#fail(event.payload.item_id, event.payload.error)
      case 'item_cancelled':
        return this.#withdraw(event.payload.item_id, event.payload.reason)
      case 'usage_update':
        this.#usage = event.payload.usage ?? this.#usage
        return
      case 'response_done':
        return this.#end(event.payload)
      case 'response_error':
        return this.#break(event.payload.error)
      case 'turn_aborted_by_user':
        return this.#break(abortError(event.payload.reason))
      case 'heartbeat':
        return
      default:
        return ignoreUnknown(event)
    }
  }

  #open(payload: StreamEventPayload<'item_start'>): void {
    const { item_id: id, initial_content: content = '' } = payload
    if (this.#routes.has(id)) return
    if (payload.item_type === 'function_call_output') this.#calls.answer(payload.call_id)
    const route = this.#routeOf(payload.item_type, payload)
    // The author of a prompt without an origin is known only when it is done.
    const isUnclear = payload.item_type === 'message' && payload.origin === undefined
    if (isUnclear && id.includes(USER_PROMPT_ID)) return
    this.#routes.set(id, route)
    if (route === 'call') this.#sendCalls(this.#calls.open(id, payload))
    else if (route !== 'nowhere') this.#sendText(route, this.#lanes[route].open(id, content))
  }

  #grow({ item_id: id, delta_content: piece }: StreamEventPayload<'item_delta'>): void {
    const route = this.#routes.get(id)
    if (route === 'call') this.#sendCalls(this.#calls.grow(id, piece))
    else if (isText(route)) this.#sendText(route, this.#lanes[route].grow(id, piece))
  }

  #finish(payload: StreamEventPayload<'item_done'>): void {
    const { item_id: id, final_item: final } = payload
    const started = this.#routes.get(id)
    if (started === 'ended') return
    if (payload.finish_reason === 'cancelled') return this.#cancel(id, undefined)
    if (final.type === 'error') return this.#fail(id, final)
    if (final.type === 'cancelled') return this.#withdraw(id, final.reason)
    if (final.type === 'function_call_output') this.#calls.answer(final.call_id)
    const isSame = fits(started, final)
    if (!isSame) this.#cancel(id, undefined)
    this.#routes.set(id, 'ended')
    const route = isSame && started !== undefined ? started : this.#routeOf(final.type, final)
    this.#complete(id, route, final)
  }

  #complete(id: string, route: Route, final: OutputItem): void {
    if (route === 'call') {
      if (final.type === 'function_call') this.#sendCalls(this.#calls.finish(id, final))
    } else if (route !== 'nowhere' && 'content' in final) {
      const lane = this.#lanes[route]
      const isOfAgent = (final.origin ?? 'agent') === 'agent'
      this.#sendText(route, isOfAgent ? lane.finish(id, final.content) : lane.drop(id))
    }
  }

  #fail(id: string, error: ErrorObject): void {
    const route = this.#routes.get(id)
    this.#routes.set(id, 'ended')
    this.#calls.fail(id, error)
    if (isText(route)) this.#sendText(route, this.#lanes[route].end(id))
  }

  /** The provider abandoned the item, and may begin again. Sent text cannot be retracted. */
  #withdraw(id: string, reason: string | undefined): void {
    const route = this.#routes.get(id)
    if (isText(route) && route !== 'reasoning_content' && this.#lanes[route].hasSent(id)) {
      const detail = `text that was sent is withdrawn${reason === undefined ? '' : `: ${reason}`}`
      this.#withdrawn = codedError('ITEM_CANCELLED', detail)
    }
    this.#cancel(id, reason)
  }

  #cancel(id: string, reason: string | undefined): void {
    const route = this.#routes.get(id)
    this.#routes.set(id, 'ended')
    this.#calls.cancel(id, reason)
    if (isText(route)) this.#sendText(route, this.#lanes[route].drop(id))
  }

  #end({ status, finish_reason, usage }: StreamEventPayload<'response_done'>): void {
    if (status === 'aborted') return this.#break(abortError())
    if (status === 'error') return this.#break(codedError('STREAM_ERROR', 'the response failed'))
    if (this.#withdrawn !== undefined) return this.#break(this.#withdrawn)
    this.#sendRest()
    this.#sendCalls(this.#calls.finishAll())
    const { failure, shownArguments: calls } = this.#calls
    if (failure !== undefined) return this.#break(failure)
    const isLegacy = this.#options.legacyFunctions === true
    const given = { calls, refusal: this.#refused, isLegacy }
    this.#send({}, chatFinishReason(finish_reason, given))
    this.#sendUsage(usage ?? this.#usage)
    this.#phase = 'done'
  }

  #break(error: ErrorObject): void {
    this.#withdrawn = undefined
    this.#sendRest()
    this.#begin()
    this.#frames.push(chatError(error))
    this.#phase = 'done'
  }

  /** Returns where an item goes, from what is known at its start or end. */
  #routeOf(type: OutputItem['type'], item: Described): Route {
    const { origin = 'agent', provider_metadata: metadata } = item
    switch (type) {
      case 'message':
        if (origin !== 'agent') return 'nowhere'
        return isRefusal(metadata) ? 'refusal' : 'content'
      case 'reasoning':
        if (origin !== 'agent' || this.#options.reasoning === 'omit') return 'nowhere'
        return 'reasoning_content'
      case 'function_call':
        return isExecutedByProvider(metadata) ? 'nowhere' : 'call'
      default:
        return 'nowhere'
    }
  }

  /** The first visible call ends the text, so pending text goes before it. */
  #sendCalls(deltas: readonly ChatToolCallDelta[]): void {
    if (deltas.length > 0 && this.#options.keepTextAfterToolCalls !== true) {
      this.#sendText('content', this.#lanes.content.close())
      this.#sendText('refusal', this.#lanes.refusal.close())
    }
    // Pending text ends the stream, too.
    if (this.done) return
    if (deltas.length > 0 && this.#withdrawn !== undefined) return this.#break(this.#withdrawn)
    for (const delta of deltas) this.#sendCall(delta)
  }

  #sendCall(delta: ChatToolCallDelta): void {
    if (this.#options.legacyFunctions !== true) this.#send({ tool_calls: [delta] })
    else if (delta.index === 0) this.#send({ function_call: delta.function })
  }

  #sendText(field: ChatTextField, text: string): void {
    if (text === '' || this.done) return
    if (this.#withdrawn !== undefined) return this.#break(this.#withdrawn)
    if (field === 'refusal') this.#refused = true
    this.#send({ [field]: text })
  }

  #sendRest(): void {
    for (const field of TEXT_FIELDS) this.#sendText(field, this.#lanes[field].close())
  }

  #begin(): void {
    if (this.#phase !== 'before') return
    this.#phase = 'open'
    this.#send({ role: 'assistant', content: '' })
  }

  #send(delta: ChatDelta, finish_reason: ChatFinishReason | null = null): void {
    this.#begin()
    this.#push([{ index: 0, delta, logprobs: null, finish_reason }], null)
  }

  #sendUsage(usage: Usage | undefined): void {
    if (this.#options.includeUsage && usage !== undefined) this.#push([], chatUsage(usage))
  }

  #push(choices: ChatChunk['choices'], usage: ChatUsage | null): void {
    const hasUsage = this.#options.includeUsage === true
    this.#frames.push({ ...this.#head, choices, ...(hasUsage && { usage }) })
  }
}

type Described = Pick<StreamEventPayload<'item_start'>, 'origin' | 'provider_metadata'>

const TEXT_FIELDS: readonly ChatTextField[] = ['reasoning_content', 'content', 'refusal']

function isText(route: Route | 'ended' | undefined): route is ChatTextField {
  return route !== undefined && route !== 'call' && route !== 'nowhere' && route !== 'ended'
}

/** Returns whether an item ended with the type it was opened with. */
function fits(route: Route | undefined, final: OutputItem): boolean {
  if (route === 'call') return final.type === 'function_call'
  return !isText(route) || final.type === 'message' || final.type === 'reasoning'
}

/** Does not compile when one of our types is missing; types of later versions are ignored. */
function ignoreUnknown(_event: never): void {}

/** Returns the SSE frames of an event, including `[DONE]` when it ends the response. */
export function chatCompletionsSse(encoder: ChatCompletionsEncoder, event: StreamEvent): string {
  return encoder.encodeSse(event)
}

/** Returns the same chunks as JSON Lines. The end of the text replaces `[DONE]`. */
export function chatCompletionsJsonLines(
  encoder: ChatCompletionsEncoder,
  event: StreamEvent,
): string {
  return encoder
    .encode(event)
    .map((frame) => `${JSON.stringify(frame)}\n`)
    .join('')
}

interface Text {
  /** What the client has received. */
  sent: string
  /** What the client has not received yet. */
  waiting: string
  open: boolean
}

/**
 * Joins the texts of several items into the one text of a message. They are sent in the order in which they
 * were opened: of overlapping items, the later one waits until the earlier one ends. Sent text cannot be
 * retracted.
 *
 * Every method returns the text to send now.
 */
export class TextLane {
  readonly #texts = new Map<string, Text>()
  #closed = false

  open(id: string, text: string): string {
    if (this.#closed) return ''
    this.#add(id).waiting = text
    return this.#next()
  }

  grow(id: string, piece: string): string {
    const text = this.#texts.get(id)
    if (text === undefined) return ''
    text.waiting += piece
    return this.#next()
  }

  /**
   * Also accepts a text that was not opened. A final text that does not start with what was sent adds
   * nothing.
   */
  finish(id: string, final: string): string {
    if (this.#closed) return ''
    const text = this.#texts.get(id) ?? this.#add(id)
    text.waiting = final.startsWith(text.sent) ? final.slice(text.sent.length) : ''
    return this.end(id)
  }

  /** Ends the item with the text it has. */
  end(id: string): string {
    const text = this.#texts.get(id)
    if (text !== undefined) text.open = false
    return this.#next()
  }

  hasSent(id: string): boolean {
    return (this.#texts.get(id)?.sent ?? '') !== ''
  }

  /** Drops the item and its unsent text. */
  drop(id: string): string {
    const text = this.#texts.get(id)
    if (text !== undefined) text.waiting = ''
    return this.end(id)
  }

  /** Returns the rest of all texts. Nothing is sent after this. */
  close(): string {
    const rest = Array.from(this.#texts.values(), ({ waiting }) => waiting).join('')
    this.#closed = true
    this.#texts.clear()
    return rest
  }

  #add(id: string): Text {
    const text = { sent: '', waiting: '', open: true }
    this.#texts.set(id, text)
    return text
  }

  #next(): string {
    let sent = ''
    for (const [id, text] of this.#texts) {
      sent += text.waiting
      text.sent += text.waiting
      text.waiting = ''
      if (text.open) break
      this.#texts.delete(id)
    }
    return sent
  }
}
