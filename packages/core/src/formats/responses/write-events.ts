import { shortCallId } from '../../protocol/ids.ts'
import { wireItemId } from '../../protocol/item-ids.ts'
import type { StreamEventPayload } from '../../protocol/stream-event.ts'
import { encodeSse } from '../../sse/encode.ts'
import {
  type AnswerEnd,
  type AnswerItem,
  type AnswerItemEnd,
  CHARS_PER_TOKEN,
  isJson,
} from '../answer.ts'
import { type AnswerWriter, eventSse } from '../answer-encoder.ts'
import { customInput } from '../custom-tools.ts'
import { DONE } from '../fields.ts'
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

interface Shown {
  readonly item: AnswerItem
  readonly id: string
  /** Among those that are sent; -1 for an omitted item. */
  readonly index: number
  /** Undefined for a plain function. */
  readonly tool: NamedTool | undefined
  status: ResponsesItemStatus
  /** Whether the part of a text was announced. */
  hasPart: boolean
  /** The SSE frame of a delta around its number and its text. */
  frame: { readonly start: string; readonly middle: string; readonly end: string } | undefined
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

/** How the events of a growing text are named, and the type of its part. */
interface TextForm {
  readonly name: string
  readonly part?: 'output_text' | 'refusal' | 'reasoning_text' | 'summary_text'
}

const FORMS = {
  text: { name: 'response.output_text', part: 'output_text' },
  refusal: { name: 'response.refusal', part: 'refusal' },
  reasoning: { name: 'response.reasoning_text', part: 'reasoning_text' },
  open_reasoning: { name: 'response.reasoning', part: 'reasoning_text' },
  summary: { name: 'response.reasoning_summary_text', part: 'summary_text' },
  call: { name: 'response.function_call_arguments' },
  custom_call: { name: 'response.custom_tool_call_input' },
} as const satisfies Record<string, TextForm>

/** Writes one response as the events of OpenAI's Responses API, numbered from 0. */
export class ResponsesWriter implements AnswerWriter<ResponsesEvent> {
  readonly frames: ResponsesEvent[] = []
  readonly #options: ResponsesWriterOptions
  #inputChars = 0
  readonly #shown = new Map<AnswerItem, Shown>()
  /** The number of the last event that is left out. */
  readonly #startingAfter: number
  #parameters: ResponsesParameters
  #tools = new Map<string, NamedTool>()
  #createdAt: number
  #isStarted = false
  #hasSummaries = false
  #hasEncryptedContent: boolean
  #hasRefusal = false
  #ending: Ending = RUNNING
  #sentItems = 0
  #nextNumber = 0

  constructor(options: ResponsesWriterOptions, startingAfter: number) {
    this.#options = options
    this.#startingAfter = startingAfter
    this.#hasEncryptedContent = options.hasEncryptedContent === true
    this.#parameters = responsesParameters(undefined, options.model)
    this.#createdAt = options.createdAt
  }

  get isOver(): boolean {
    return this.#ending !== RUNNING
  }

  toSse(events: readonly ResponsesEvent[]): string {
    return events.map(eventSse).join('') + (this.isOver ? encodeSse({ data: DONE }) : '')
  }

  /** The number of the last event; -1 before the first. */
  get lastNumber(): number {
    return this.#nextNumber - 1
  }

  /** The response so far. */
  get response(): ResponsesObject {
    const sent = [...this.#shown.values()].filter(({ index }) => index >= 0)
    return {
      id: `resp_${this.#options.turnId}`,
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

  input(chars: number): void {
    this.#inputChars += chars
  }

  open(item: AnswerItem): void {
    this.#begin()
    const tool = item.kind === 'call' ? this.#tools.get(item.name) : undefined
    const id = `${prefixOf(item, tool)}_${wireItemId(item.id)}`
    const index = this.#options.omitted?.has(id) ? -1 : this.#sentItems++
    const status = 'in_progress'
    const shown: Shown = { item, id, index, tool, status, hasPart: false, frame: undefined }
    this.#shown.set(item, shown)
    if (item.kind === 'refusal') this.#hasRefusal = true
    const added = {
      ...this.#itemOf(shown),
      ...(isMessage(item) && { content: [] }),
    } as ResponsesItem
    this.#push({ type: 'response.output_item.added', output_index: index, item: added })
    if (isMessage(item)) this.#openPart(shown)
  }

  #openPart(shown: Shown): void {
    shown.hasPart = true
    this.#pushPart(shown, 'added', '')
  }

  grow(item: AnswerItem, delta: string): void {
    const shown = this.#shown.get(item)
    if (shown === undefined || shown.tool?.isCustom) return
    if (item.kind === 'reasoning' && !shown.hasPart) this.#openPart(shown)
    this.#pushText(shown, 'delta', { delta })
  }

  encodeDelta(item: AnswerItem, delta: string): string {
    const shown = this.#shown.get(item)
    if (shown === undefined || shown.tool?.isCustom) return ''
    const { start, middle, end } = (shown.frame ??= this.#newFrame(shown))
    const number = this.#nextNumber++
    if (number <= this.#startingAfter || shown.index < 0) return ''
    return start + number + middle + JSON.stringify(delta) + end
  }

  #newFrame(shown: Shown): NonNullable<Shown['frame']> {
    const form = this.#formOf(shown)
    const type = `${form.name}.delta`
    return {
      start: `event: ${type}\ndata: {"type":"${type}","sequence_number":`,
      middle: `,${JSON.stringify(placeOf(shown, form)).slice(1, -1)},"delta":`,
      end: `${form === FORMS.text ? ',"logprobs":[]' : ''}}\n\n`,
    }
  }

  #formOf({ item: { kind }, tool }: Shown): TextForm {
    if (tool?.isCustom) return FORMS.custom_call
    if (kind !== 'reasoning') return FORMS[kind]
    if (this.#hasSummaries) return FORMS.summary
    return this.#options.openResponses ? FORMS.open_reasoning : FORMS.reasoning
  }

  #pushText(shown: Shown, stage: 'delta' | 'done', fields: Record<string, string>): void {
    const form = this.#formOf(shown)
    const type = `${form.name}.${stage}`
    const logprobs = form === FORMS.text && { logprobs: [] }
    const event = { type, ...placeOf(shown, form), ...fields, ...logprobs }
    this.#push(event as ResponsesUnnumberedEvent)
  }

  #pushPart(shown: Shown, stage: 'added' | 'done', text: string): void {
    const { kind, metadata } = shown.item
    const form = this.#formOf(shown)
    const name = form === FORMS.summary ? 'reasoning_summary_part' : 'content_part'
    const annotations = stage === 'done' ? annotationsOf(metadata) : []
    const part =
      kind === 'text' || kind === 'refusal'
        ? messagePart(kind, text, annotations)
        : { type: form.part, text }
    const type = `response.${name}.${stage}`
    this.#push({ type, ...placeOf(shown, form), part } as ResponsesUnnumberedEvent)
  }

  close(item: AnswerItem, how: AnswerItemEnd): void {
    const shown = this.#shown.get(item)
    if (shown === undefined) return
    // The arguments of a call may be cut by the token limit.
    const isComplete = how === 'done' && (item.kind !== 'call' || isJson(item.text))
    shown.status = isComplete ? 'completed' : 'incomplete'
    if (item.kind === 'call') this.#closeCall(shown)
    else this.#closeText(shown)
    const { index: output_index } = shown
    this.#push({ type: 'response.output_item.done', output_index, item: this.#itemOf(shown) })
  }

  #closeText(shown: Shown): void {
    const { kind, text } = shown.item
    if (text !== '' && !shown.hasPart) this.#openPart(shown)
    if (!shown.hasPart) return
    this.#pushText(shown, 'done', kind === 'refusal' ? { refusal: text } : { text })
    this.#pushPart(shown, 'done', text)
  }

  #closeCall(shown: Shown): void {
    if (shown.status === 'incomplete') return
    const { item, tool } = shown
    if (!tool?.isCustom) {
      const name = tool?.name ?? item.name
      return this.#pushText(shown, 'done', { name, arguments: item.text })
    }
    const input = customInput(item.text)
    if (input !== '') this.#pushText(shown, 'delta', { delta: input })
    this.#pushText(shown, 'done', { input })
  }

  end(end: AnswerEnd): void {
    this.#begin()
    const usage = this.#usageOf(end)
    const ended = { ...RUNNING, usage }
    if (end.kind === 'failed') {
      const error = responsesError(end.error)
      this.#ending = { ...ended, status: 'failed', error }
      this.#push({ type: 'error', error: { type: errorTypeOf(error.code), ...error, param: null } })
      this.#push({ type: 'response.failed', response: this.response })
      return
    }
    // The API has no event for a cancelled response.
    const reason = end.kind === 'cancelled' ? 'cancelled' : this.#incompleteReason(end.finishReason)
    if (reason === undefined) {
      this.#ending = { ...ended, status: 'completed', completed_at: Math.floor(end.at / 1000) }
      this.#push({ type: 'response.completed', response: this.response })
      return
    }
    const status = end.kind === 'cancelled' ? 'cancelled' : 'incomplete'
    if (end.kind === 'done') this.#cutLast()
    this.#ending = { ...ended, status, incomplete_details: { reason } }
    this.#push({ type: 'response.incomplete', response: this.response })
  }

  /** Clients require the usage of a response that has ended by itself. Without the provider's figures, an estimate. */
  #usageOf({ usage, kind }: AnswerEnd): ResponsesUsage | null {
    if (usage !== undefined) return responsesUsage(usage)
    if (kind !== 'done') return null
    const chars = [...this.#shown.keys()].reduce((sum, { text }) => sum + text.length, 0)
    const prompt_tokens = Math.ceil(this.#inputChars / CHARS_PER_TOKEN)
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
    if (finishReason === 'length') return 'max_output_tokens'
    // A refusal in words is an answer. Without them the client must not take it for one.
    const isWithheld = finishReason === 'refusal' && !this.#hasRefusal
    return isWithheld || finishReason === 'content_filter' ? 'content_filter' : undefined
  }

  #itemOf({ item, id, tool, status }: Shown): ResponsesItem {
    const { text, callId: call_id, metadata } = item
    if (item.kind === 'reasoning') return this.#reasoningOf(item, { id, status })
    if (item.kind !== 'call') {
      const content = [messagePart(item.kind, text, annotationsOf(metadata))]
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
    { id, status }: Pick<ResponsesReasoning, 'id' | 'status'>,
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
    if (event.sequence_number > this.#startingAfter) this.frames.push(event as ResponsesEvent)
  }
}

/** The fields of an event that say which text it is about. */
function placeOf({ id: item_id, index: output_index }: Shown, { part }: TextForm): object {
  if (part === undefined) return { item_id, output_index }
  const position = part === 'summary_text' ? { summary_index: 0 } : { content_index: 0 }
  return { item_id, output_index, ...position }
}

function isMessage({ kind }: AnswerItem): boolean {
  return kind === 'text' || kind === 'refusal'
}

/** Clients drop ids without these prefixes. */
function prefixOf({ kind }: AnswerItem, tool: NamedTool | undefined): string {
  if (kind === 'call') return tool?.isCustom ? 'ctc' : 'fc'
  return kind === 'reasoning' ? 'rs' : 'msg'
}

function messagePart(
  kind: 'text' | 'refusal',
  text: string,
  annotations: unknown[],
): ResponsesPart {
  if (kind === 'refusal') return { type: 'refusal', refusal: text }
  return { type: 'output_text', text, annotations, logprobs: [] }
}
