import type { ErrorObject } from '../../protocol/stream-event.ts'
import { encodeSse } from '../../sse/encode.ts'
import {
  type AnswerEnd,
  type AnswerItem,
  type AnswerItemEnd,
  abortError,
  changedArguments,
  codedError,
} from '../answer.ts'
import type { AnswerWriter } from '../answer-encoder.ts'
import { customInput } from '../custom-tools.ts'
import { DONE } from '../fields.ts'
import { chatError } from './errors.ts'
import {
  CHUNK_OBJECT,
  type ChatChunk,
  type ChatChunkHead,
  type ChatDelta,
  type ChatFinishReason,
  type ChatFrame,
  type ChatTextField,
  type ChatToolCallDelta,
  type ChatUsage,
  chatFinishReason,
  chatUsage,
  toToolCall,
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
  /** Names of custom tools, which providers know as functions. Their calls are sent with the type `custom`. */
  customTools?: readonly string[]
}

interface Text {
  readonly field: ChatTextField
  /** What the client has received. */
  sent: string
  /** What the client has not received yet. */
  waiting: string
  hasEnded: boolean
}

/**
 * Writes one response as Chat Completions chunks. A message has one text of each kind: of overlapping items, the later
 * one waits until the earlier one ends. The first call ends the text. Sent text cannot be retracted.
 */
export class ChatWriter implements AnswerWriter<ChatFrame> {
  readonly frames: ChatFrame[] = []
  readonly #options: ChatCompletionsOptions
  readonly #head: ChatChunkHead
  readonly #customTools: ReadonlySet<string>
  readonly #texts = new Map<AnswerItem, Text>()
  /** Texts that have not ended for the client, in order. The client receives the first of each. */
  readonly #queues: Record<ChatTextField, Text[]> = {
    reasoning_content: [],
    content: [],
    refusal: [],
  }
  readonly #calls = new Map<AnswerItem, number>()
  /** The SSE frames of deltas before and after their text. */
  readonly #frames: Partial<Record<ChatTextField, { before: string; after: string }>> = {}
  #phase: 'before' | 'open' | 'over' = 'before'
  #hasTextEnded = false
  #hasRefusal = false
  /** Why what was sent is not what the response has. The client would store what follows as part of the same answer. */
  #withdrawn: ErrorObject | undefined
  /** The same for the arguments of a call, which the client uses only at the end. */
  #changed: ErrorObject | undefined

  constructor(options: ChatCompletionsOptions) {
    const { id, created, model, customTools } = options
    this.#options = options
    this.#head = { id, object: CHUNK_OBJECT, created, model }
    this.#customTools = new Set(customTools)
  }

  get isOver(): boolean {
    return this.#phase === 'over'
  }

  toSse(frames: readonly ChatFrame[]): string {
    const data = frames.map((frame) => JSON.stringify(frame))
    if (this.isOver) data.push(DONE)
    return data.map((each) => encodeSse({ data: each })).join('')
  }

  start(): void {
    if (this.#phase !== 'before') return
    this.#phase = 'open'
    this.#send({ role: 'assistant', content: '' })
  }

  open(item: AnswerItem): void {
    if (item.kind === 'call') return this.#openCall(item)
    const field = TEXT_FIELDS[item.kind]
    if (field === 'reasoning_content' && this.#options.reasoning === 'omit') return
    if (this.#hasTextEnded && field !== 'reasoning_content') return
    const text = { field, sent: '', waiting: '', hasEnded: false }
    this.#texts.set(item, text)
    this.#queues[field].push(text)
  }

  grow(item: AnswerItem, piece: string): void {
    if (item.kind === 'call') return this.#growCall(item, piece)
    const text = this.#texts.get(item)
    if (text === undefined) return
    text.waiting += piece
    this.#advance(text.field)
  }

  /** Undefined if the client does not receive the item now. */
  encodeDelta(item: AnswerItem, piece: string): string | undefined {
    const text = this.#texts.get(item)
    if (text === undefined || this.#withdrawn !== undefined) return undefined
    if (text.sent === '' || text !== this.#queues[text.field][0]) return undefined
    text.sent += piece
    const { before, after } = (this.#frames[text.field] ??= this.#newFrame(text.field))
    return before + JSON.stringify(piece) + after
  }

  close(item: AnswerItem, how: AnswerItemEnd, reason?: string): void {
    if (item.kind === 'call') return this.#closeCall(item, how)
    const text = this.#texts.get(item)
    if (text === undefined) return
    this.#texts.delete(item)
    text.hasEnded = true
    if (how === 'withdrawn') this.#withdraw(text, reason)
    // Only what extends the text that the client has can still be sent.
    else if (item.isRewritten) {
      text.waiting = item.text.startsWith(text.sent) ? item.text.slice(text.sent.length) : ''
    }
    this.#advance(text.field)
  }

  end(end: AnswerEnd): void {
    if (this.isOver) return
    if (end.kind === 'failed') return this.#fail(end.error)
    if (end.kind === 'cancelled') return this.#fail(abortError(end.reason))
    const failure = this.#withdrawn ?? this.#changed
    if (failure !== undefined) return this.#fail(failure)
    const given = {
      calls: Array.from(this.#calls.keys(), ({ text }) => text),
      refusal: this.#hasRefusal,
      isLegacy: this.#options.legacyFunctions === true,
    }
    this.#send({}, chatFinishReason(end.finishReason, given))
    if (this.#options.includeUsage && end.usage !== undefined) this.#push([], chatUsage(end.usage))
    this.#phase = 'over'
  }

  #fail(error: ErrorObject): void {
    this.start()
    this.frames.push(chatError(error))
    this.#phase = 'over'
  }

  #withdraw(text: Text, reason: string | undefined): void {
    text.waiting = ''
    if (text.sent === '' || text.field === 'reasoning_content') return
    const detail = `text that was sent is withdrawn${reason === undefined ? '' : `: ${reason}`}`
    this.#withdrawn ??= codedError('ITEM_CANCELLED', detail)
  }

  /** Sends what can be sent of the first text, and of the next ones if it has ended. */
  #advance(field: ChatTextField): void {
    const queue = this.#queues[field]
    let piece = ''
    for (let text = queue[0]; text !== undefined; text = queue[0]) {
      piece += text.waiting
      text.sent += text.waiting
      text.waiting = ''
      if (!text.hasEnded) break
      queue.shift()
    }
    this.#sendText(field, piece)
  }

  /** Sends the rest of all texts, in order. Later ones are dropped. */
  #endText(): void {
    this.#hasTextEnded = true
    for (const field of ['content', 'refusal'] as const) {
      const rest = this.#queues[field].splice(0).map(({ waiting }) => waiting)
      this.#sendText(field, rest.join(''))
    }
    for (const [item, { field }] of this.#texts) {
      if (field !== 'reasoning_content') this.#texts.delete(item)
    }
  }

  #sendText(field: ChatTextField, text: string): void {
    if (text === '' || this.isOver) return
    if (this.#withdrawn !== undefined) return this.#fail(this.#withdrawn)
    if (field === 'refusal') this.#hasRefusal = true
    this.#send({ [field]: text })
  }

  #openCall(item: AnswerItem): void {
    if (this.#options.keepTextAfterToolCalls !== true) this.#endText()
    if (this.isOver) return
    if (this.#withdrawn !== undefined) return this.#fail(this.#withdrawn)
    const index = this.#calls.size
    this.#calls.set(item, index)
    this.#sendCall({ index, ...toToolCall(item, '', this.#isCustom(item)) })
  }

  #growCall(item: AnswerItem, piece: string): void {
    // The text of a custom tool is within its arguments, and known when these are complete.
    const index = this.#calls.get(item)
    if (index === undefined || this.isOver || this.#isCustom(item)) return
    this.#sendCall({ index, function: { arguments: piece } })
  }

  #closeCall(item: AnswerItem, how: AnswerItemEnd): void {
    const index = this.#calls.get(item)
    if (index === undefined || this.isOver || how !== 'done') return
    if (item.isRewritten) this.#changed ??= changedArguments(item)
    else if (this.#isCustom(item)) {
      this.#sendCall({ index, custom: { input: customInput(item.text) } })
    }
  }

  #isCustom({ name }: AnswerItem): boolean {
    return this.#customTools.has(name)
  }

  /** The older form holds one call. */
  #sendCall(delta: ChatToolCallDelta): void {
    if (this.#options.legacyFunctions !== true) this.#send({ tool_calls: [delta] })
    else if (delta.index === 0 && 'function' in delta) this.#send({ function_call: delta.function })
  }

  #send(delta: ChatDelta, finish_reason: ChatFinishReason | null = null): void {
    this.start()
    this.#push([{ index: 0, delta, logprobs: null, finish_reason }], null)
  }

  #push(choices: ChatChunk['choices'], usage: ChatUsage | null): void {
    const hasUsage = this.#options.includeUsage === true
    this.frames.push({ ...this.#head, choices, ...(hasUsage && { usage }) })
  }

  #newFrame(field: ChatTextField) {
    const head = JSON.stringify(this.#head).slice(0, -1)
    const usage = this.#options.includeUsage === true ? ',"usage":null' : ''
    return {
      before: `data: ${head},"choices":[{"index":0,"delta":{"${field}":`,
      after: `},"logprobs":null,"finish_reason":null}]${usage}}\n\n`,
    }
  }
}

const TEXT_FIELDS = { text: 'content', refusal: 'refusal', reasoning: 'reasoning_content' } as const
