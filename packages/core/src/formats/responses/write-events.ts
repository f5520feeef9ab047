import { shortCallId } from '../../protocol/ids.ts'
import { wireItemId } from '../../protocol/item-ids.ts'
import type { StreamEventPayload } from '../../protocol/stream-event.ts'
import {
  type AnswerEnd,
  type AnswerItem,
  type AnswerItemEnd,
  type AnswerSink,
  CHARS_PER_TOKEN,
  isJson,
} from '../answer.ts'
import { customInput } from '../custom-tools.ts'
import { errorTypeOf, responsesError } from './errors.ts'
import { type NamedTool, namedTools } from './tool-names.ts'
import {
  annotationsOf,
  ENCRYPTED_CONTENT,
  encryptedContentOf,
  phaseOf,
  type ResponsesEvent,
  type ResponsesItem,
  type ResponsesItemStatus,
  type ResponsesObject,
  type ResponsesParameters,
  type ResponsesPart,
  type ResponsesReasoning,
  type ResponsesReasoningName,
  type ResponsesUnnumberedEvent,
  type ResponsesUsage,
  responsesParameters,
  responsesUsage,
  summaryOf,
} from './wire.ts'

/** Ids of a response whose log does not start with `response_start`. */
export interface ResponsesHead {
  readonly turnId: string
  readonly model: string
  /** Milliseconds since the epoch. */
  readonly createdAt: number
}

export interface ResponsesWriterOptions extends ResponsesHead {
  /** Names the events of reasoning text as Open Responses does. Numbers are the same. False by default. */
  readonly openResponses?: boolean
  /** Includes encrypted reasoning, as if the request had asked for it. False by default. */
  readonly hasEncryptedContent?: boolean
  /** Ids of items that the client already has. Their events are left out, but keep their numbers. */
  readonly omitted?: ReadonlySet<string> | undefined
}

/** An item with its place in the output. */
interface Shown {
  readonly item: AnswerItem
  readonly id: string
  /** Among those that are sent; -1 for an omitted item. */
  readonly index: number
  /** Undefined for a plain function. */
  readonly tool: NamedTool | undefined
  status: ResponsesItemStatus
  /** Whether a part of reasoning was announced. A message always has one. */
  hasPart: boolean
  /** The frame of a delta before and after its text, except for the sequence number. */
  frame: DeltaFrame | undefined
}

export interface DeltaFrame {
  readonly start: string
  readonly middle: string
  readonly end: string
}

type Ending = Pick<
  ResponsesObject,
  'status' | 'completed_at' | 'error' | 'incomplete_details' | 'usage'
>

const RUNNING: Ending = {
  status: 'in_progress',
  completed_at: null,
  error: null,
  incomplete_details: null,
  usage: null,
}

/** The type of a delta by the kind of its item. Custom calls have none: their input is known at the end. */
type DeltaType = Extract<ResponsesUnnumberedEvent, { delta: string }>['type']

/** Writes one response as the events of OpenAI's Responses API, numbered from 0. */
export class ResponsesWriter implements AnswerSink {
  readonly #head: ResponsesHead
  readonly #inputChars: () => number
  readonly #reasoningName: ResponsesReasoningName
  readonly #shown = new Map<AnswerItem, Shown>()
  #parameters: ResponsesParameters
  #tools = new Map<string, NamedTool>()
  #createdAt: number
  #isStarted = false
  #hasSummaries = false
  #hasEncryptedContent: boolean
  #hasRefusal = false
  #ending: Ending = RUNNING
  readonly #omitted: ReadonlySet<string>
  #sentItems = 0
  #events: ResponsesEvent[] = []
  #nextNumber = 0

  /** `inputChars` returns how many characters the input has. */
  constructor(
    {
      openResponses = false,
      hasEncryptedContent = false,
      omitted = new Set(),
      ...head
    }: ResponsesWriterOptions,
    inputChars: () => number,
  ) {
    this.#head = head
    this.#inputChars = inputChars
    this.#omitted = omitted
    this.#hasEncryptedContent = hasEncryptedContent
    this.#reasoningName = openResponses ? 'response.reasoning' : 'response.reasoning_text'
    this.#parameters = responsesParameters(undefined, head.model)
    this.#createdAt = head.createdAt
  }

  /** Returns the events since the last call. */
  drainEvents(): ResponsesEvent[] {
    const events = this.#events
    this.#events = []
    return events
  }

  /** The number of the last event; -1 before the first. */
  get lastNumber(): number {
    return this.#nextNumber - 1
  }

  /** The number of a delta that is sent as text, without an event. */
  takeNumber(): number {
    return this.#nextNumber++
  }

  /** Whether the client already has an item. */
  isOmitted(item: AnswerItem): boolean {
    return (this.#shown.get(item)?.index ?? 0) < 0
  }

  /** The response so far. */
  get response(): ResponsesObject {
    const sent = [...this.#shown.values()].filter(({ index }) => index >= 0)
    return {
      id: `resp_${this.#head.turnId}`,
      object: 'response',
      created_at: Math.floor(this.#createdAt / 1000),
      ...this.#ending,
      ...this.#parameters,
      output: sent.map((shown) => this.#itemOf(shown)),
    }
  }

  start({ model_id, created_at, parameters }: StreamEventPayload<'response_start'>): void {
    if (this.#isStarted) return
    this.#createdAt = created_at
    this.#parameters = responsesParameters(parameters, model_id)
    const { tools, reasoning } = this.#parameters
    this.#tools = new Map(namedTools(tools).map((tool) => [tool.flatName, tool]))
    // A client that requests summaries shows only those.
    this.#hasSummaries = reasoning?.summary != null
    const include = parameters?.['include']
    this.#hasEncryptedContent ||= Array.isArray(include) && include.includes(ENCRYPTED_CONTENT)
    this.#begin()
  }

  #begin(): void {
    if (this.#isStarted) return
    this.#isStarted = true
    const { response } = this
    this.#push({ type: 'response.created', response })
    this.#push({ type: 'response.in_progress', response })
  }

  open(item: AnswerItem): void {
    this.#begin()
    const tool = item.kind === 'call' ? this.#tools.get(item.name) : undefined
    const isCustom = tool?.isCustom === true
    const id = `${prefixOf(item, isCustom)}_${wireItemId(item.id)}`
    const shown: Shown = {
      item,
      id,
      index: this.#omitted.has(id) ? -1 : this.#sentItems++,
      tool,
      status: 'in_progress',
      hasPart: false,
      frame: undefined,
    }
    this.#shown.set(item, shown)
    if (item.kind === 'refusal') this.#hasRefusal = true
    const added = {
      ...this.#itemOf(shown),
      ...(isMessage(item) && { content: [] }),
    } as ResponsesItem
    this.#push({ type: 'response.output_item.added', output_index: shown.index, item: added })
    if (isMessage(item)) this.#openPart(shown)
  }

  #openPart(shown: Shown): void {
    shown.hasPart = true
    const { kind } = shown.item
    const place = { item_id: shown.id, output_index: shown.index }
    if (kind === 'reasoning' && this.#hasSummaries) {
      const part = { type: 'summary_text', text: '' } as const
      this.#push({
        type: 'response.reasoning_summary_part.added',
        ...place,
        summary_index: 0,
        part,
      })
    } else {
      const part =
        kind === 'reasoning'
          ? ({ type: 'reasoning_text', text: '' } as const)
          : partOf(shown.item, '', [])
      this.#push({ type: 'response.content_part.added', ...place, content_index: 0, part })
    }
  }

  grow(item: AnswerItem, delta: string): void {
    const shown = this.#shown.get(item)
    if (shown === undefined || shown.tool?.isCustom) return
    if (item.kind === 'reasoning' && !shown.hasPart) this.#openPart(shown)
    const { type, ...fields } = this.#delta(shown)
    this.#push({ type, ...fields, delta, ...logprobsOf(type) } as ResponsesUnnumberedEvent)
  }

  /** The frame of an item's deltas, for a caller that writes them as text. */
  frameOf(item: AnswerItem): DeltaFrame | undefined {
    const shown = this.#shown.get(item)
    if (shown === undefined || shown.tool?.isCustom) return undefined
    shown.frame ??= this.#newFrame(shown)
    return shown.frame
  }

  #newFrame(shown: Shown): DeltaFrame {
    const { type, ...fields } = this.#delta(shown)
    return {
      start: `event: ${type}\ndata: {"type":"${type}","sequence_number":`,
      middle: `,${JSON.stringify(fields).slice(1, -1)},"delta":`,
      end: `${'logprobs' in logprobsOf(type) ? ',"logprobs":[]' : ''}}\n\n`,
    }
  }

  #delta({ item, id, index }: Shown): { type: DeltaType; item_id: string; output_index: number } {
    const place = { item_id: id, output_index: index }
    switch (item.kind) {
      case 'text':
        return { type: 'response.output_text.delta', ...place, ...CONTENT }
      case 'refusal':
        return { type: 'response.refusal.delta', ...place, ...CONTENT }
      case 'reasoning':
        return this.#hasSummaries
          ? { type: 'response.reasoning_summary_text.delta', ...place, ...SUMMARY }
          : { type: `${this.#reasoningName}.delta`, ...place, ...CONTENT }
      case 'call':
        return { type: 'response.function_call_arguments.delta', ...place }
    }
  }

  close(item: AnswerItem, how: AnswerItemEnd): void {
    const shown = this.#shown.get(item)
    if (shown === undefined) return
    // The arguments of a call may be cut by the token limit.
    const isWhole = how === 'done' && (item.kind !== 'call' || isJson(item.text))
    shown.status = isWhole ? 'completed' : 'incomplete'
    if (item.kind === 'call') this.#closeCall(shown)
    else if (item.kind === 'reasoning') this.#closeReasoning(shown)
    else this.#closeMessage(shown)
    const { index: output_index } = shown
    this.#push({ type: 'response.output_item.done', output_index, item: this.#itemOf(shown) })
  }

  #closeMessage({ item, id: item_id, index: output_index }: Shown): void {
    const place = { item_id, output_index, ...CONTENT }
    const { text } = item
    if (item.kind === 'refusal') {
      this.#push({ type: 'response.refusal.done', ...place, refusal: text })
    } else this.#push({ type: 'response.output_text.done', ...place, text, logprobs: [] })
    const part = partOf(item, text, annotationsOf(item.metadata))
    this.#push({ type: 'response.content_part.done', ...place, part })
  }

  #closeReasoning(shown: Shown): void {
    const { item, id: item_id, index: output_index } = shown
    const { text } = item
    if (text !== '' && !shown.hasPart) this.#openPart(shown)
    if (!shown.hasPart) return
    const place = { item_id, output_index }
    if (this.#hasSummaries) {
      const part = { type: 'summary_text', text } as const
      this.#push({ type: 'response.reasoning_summary_text.done', ...place, ...SUMMARY, text })
      this.#push({ type: 'response.reasoning_summary_part.done', ...place, ...SUMMARY, part })
    } else {
      const part = { type: 'reasoning_text', text } as const
      this.#push({ type: `${this.#reasoningName}.done`, ...place, ...CONTENT, text })
      this.#push({ type: 'response.content_part.done', ...place, ...CONTENT, part })
    }
  }

  #closeCall({ item, id: item_id, index: output_index, tool, status }: Shown): void {
    if (status === 'incomplete') return
    const place = { item_id, output_index }
    if (tool?.isCustom) {
      const input = customInput(item.text)
      if (input !== '') {
        this.#push({ type: 'response.custom_tool_call_input.delta', ...place, delta: input })
      }
      this.#push({ type: 'response.custom_tool_call_input.done', ...place, input })
    } else {
      const name = tool?.name ?? item.name
      const type = 'response.function_call_arguments.done'
      this.#push({ type, ...place, name, arguments: item.text })
    }
  }

  opaque(): void {}

  end(end: AnswerEnd): void {
    this.#begin()
    const usage = this.#usageOf(end)
    const ended = { ...RUNNING, completed_at: Math.floor(end.at / 1000), usage }
    if (end.kind === 'failed') {
      const error = responsesError(end.error)
      this.#ending = { ...ended, status: 'failed', completed_at: null, error }
      this.#push({ type: 'error', error: { type: errorTypeOf(error.code), ...error, param: null } })
      this.#push({ type: 'response.failed', response: this.response })
      return
    }
    // The API has no event for a cancelled response.
    const reason = end.kind === 'cancelled' ? 'cancelled' : this.#incompleteReason(end.finishReason)
    if (reason === undefined) {
      this.#ending = { ...ended, status: 'completed' }
      this.#push({ type: 'response.completed', response: this.response })
      return
    }
    const status = end.kind === 'cancelled' ? 'cancelled' : 'incomplete'
    if (end.kind === 'done') this.#cutLast()
    this.#ending = { ...ended, status, completed_at: null, incomplete_details: { reason } }
    this.#push({ type: 'response.incomplete', response: this.response })
  }

  /** Clients require the usage of a response that has ended by itself. Without the provider's figures, an estimate. */
  #usageOf({ usage, kind }: AnswerEnd): ResponsesUsage | null {
    if (usage !== undefined) return responsesUsage(usage)
    if (kind !== 'done') return null
    const chars = [...this.#shown.keys()].reduce((sum, { text }) => sum + text.length, 0)
    const prompt_tokens = Math.ceil(this.#inputChars() / CHARS_PER_TOKEN)
    const completion_tokens = Math.ceil(chars / CHARS_PER_TOKEN)
    const total_tokens = prompt_tokens + completion_tokens
    return responsesUsage({ prompt_tokens, completion_tokens, total_tokens })
  }

  /** The limit cuts what comes last. Most vendors say so only after that item's end. */
  #cutLast(): void {
    const last = [...this.#shown.values()].at(-1)
    if (last !== undefined && last.item.kind !== 'call') last.status = 'incomplete'
  }

  #incompleteReason(finishReason: string): string | undefined {
    switch (finishReason) {
      case 'length':
        return 'max_output_tokens'
      case 'content_filter':
        return 'content_filter'
      case 'refusal':
        // A refusal in words is an answer. Without them the client must not take it for one.
        return this.#hasRefusal ? undefined : 'content_filter'
      default:
        return undefined
    }
  }

  #itemOf({ item, id, tool, status }: Shown): ResponsesItem {
    const { text, callId: call_id, metadata } = item
    if (item.kind === 'reasoning') return this.#reasoningOf(item, id, status)
    if (item.kind !== 'call') {
      const content = [partOf(item, text, annotationsOf(metadata))]
      return { id, type: 'message', status, role: 'assistant', content, ...phaseOf(metadata) }
    }
    const name = tool?.name ?? item.name
    const namespace = tool?.namespace === undefined ? {} : { namespace: tool.namespace }
    const call = { call_id: shortCallId(call_id), name, ...namespace }
    if (tool?.isCustom !== true) {
      return { id, type: 'function_call', status, ...call, arguments: text }
    }
    const input = status === 'in_progress' ? '' : customInput(text)
    return { id, type: 'custom_tool_call', ...call, input }
  }

  #reasoningOf(
    { text, metadata }: AnswerItem,
    id: string,
    status: ResponsesItemStatus,
  ): ResponsesReasoning {
    const hasText = text !== ''
    const isSummary = hasText && this.#hasSummaries
    return {
      id,
      type: 'reasoning',
      summary: isSummary ? summaryOf(metadata, text) : [],
      ...(hasText && !isSummary && { content: [{ type: 'reasoning_text', text }] }),
      ...(this.#hasEncryptedContent && { encrypted_content: encryptedContentOf(metadata) }),
      status,
    }
  }

  #push({ type, ...fields }: ResponsesUnnumberedEvent): void {
    const event = { type, sequence_number: this.#nextNumber++, ...fields }
    if ('output_index' in fields && fields.output_index < 0) return
    this.#events.push(event as ResponsesEvent)
  }
}

const CONTENT = { content_index: 0 } as const
const SUMMARY = { summary_index: 0 } as const

function logprobsOf(type: DeltaType): { logprobs?: [] } {
  return type === 'response.output_text.delta' ? { logprobs: [] } : {}
}

function isMessage({ kind }: AnswerItem): boolean {
  return kind === 'text' || kind === 'refusal'
}

/** Clients drop ids without these prefixes. */
function prefixOf({ kind }: AnswerItem, isCustom: boolean): string {
  if (kind === 'call') return isCustom ? 'ctc' : 'fc'
  return kind === 'reasoning' ? 'rs' : 'msg'
}

function partOf({ kind }: AnswerItem, text: string, annotations: unknown[]): ResponsesPart {
  if (kind === 'refusal') return { type: 'refusal', refusal: text }
  return { type: 'output_text', text, annotations, logprobs: [] }
}
