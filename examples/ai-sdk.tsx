// A ChatTransport for the AI SDK's useChat (https://ai-sdk.dev). The chat id is the thread id. Answers stream,
// continue after reloads and lost connections, and stop on the gateway; tools may run in the page.
import { useChat } from '@ai-sdk/react'
import {
  type ChatTransport,
  type FinishReason,
  isToolUIPart,
  type UIMessage,
  type UIMessageChunk,
} from 'ai'
import type { SyntheticEvent } from 'react'
import {
  type Client,
  ClientError,
  type ClientOptions,
  createClient,
  type ItemSnapshot,
  type ToolAnswer,
  type ToolCall,
  type Turn,
  type TurnSettings,
  type TurnView,
} from 'turnstream/client'

type SendOptions = Parameters<ChatTransport<UIMessage>['sendMessages']>[0]
type ReconnectOptions = Parameters<ChatTransport<UIMessage>['reconnectToStream']>[0]

export class TurnstreamTransport implements ChatTransport<UIMessage> {
  readonly #options: ClientOptions
  readonly #settings: TurnSettings
  readonly #client: Client
  /** By the id of the prompt's message. */
  readonly #turnIds = new Map<string, string>()
  /** The newest reconnect of each chat. */
  readonly #reconnects = new Map<string, object>()

  constructor(options: ClientOptions, settings: TurnSettings = {}) {
    this.#options = options
    this.#settings = settings
    this.#client = createClient(options)
  }

  /** Loads the messages of a chat for `useChat({ messages })`, from the newest 20 turns. */
  async loadMessages(chatId: string): Promise<UIMessage[]> {
    const messages: UIMessage[] = []
    for (const { turnId, items } of await loadTurns(this.#options, chatId)) {
      for (const { itemId, content } of items.filter(isPrompt)) {
        this.#turnIds.set(itemId, turnId)
        messages.push({ id: itemId, role: 'user', parts: [{ type: 'text', text: content }] })
      }
      const shown = items.filter((item) => !isPrompt(item))
      const parts: UIMessage['parts'] = [{ type: 'step-start' }, ...shown.map(toPart)]
      const last = messages.at(-1)
      if (last?.role === 'assistant') last.parts.push(...parts)
      else messages.push({ id: turnId, role: 'assistant', parts })
    }
    return messages
  }

  async sendMessages({ chatId, messages, abortSignal }: SendOptions) {
    const last = messages.at(-1)
    // The message continues after the answers to its tool calls, which it already shows.
    const answers = last?.role === 'assistant' ? answersOf(last) : []
    const turn =
      answers.length > 0
        ? this.#client.answer(chatId, answers, this.#settings)
        : this.#submit(chatId, last)
    abortSignal?.addEventListener('abort', () => this.#stop(turn.turnId))
    await turn.accepted()
    const answered = answers.map(({ callId }) => callId)
    return toStream(turn, last?.role === 'assistant' ? last.id : turn.turnId, { answered })
  }

  async reconnectToStream({ chatId, abortSignal }: ReconnectOptions) {
    const reconnect = {}
    this.#reconnects.set(chatId, reconnect)
    const turns = await loadTurns(this.#options, chatId)
    const running = turns.at(-1)
    if (running?.status !== 'running') return null
    abortSignal?.addEventListener('abort', () =>
      queueMicrotask(() => {
        // A component that mounts again aborts the reconnect before its own; only a stop has no successor.
        if (this.#reconnects.get(chatId) === reconnect) this.#stop(running.turnId)
      }),
    )
    // A message is a turn with a prompt, and the turns that answer its tool calls.
    const start = turns.findLastIndex(({ items }) => items.some(isPrompt))
    const earlier = turns.slice(Math.max(start, 0), -1)
    const { turnId } = earlier[0] ?? running
    return toStream(this.#client.turn(running.turnId), turnId, { earlier })
  }

  /** Submits a prompt. One that was submitted before, to edit or to regenerate, replaces its turn. */
  #submit(chatId: string, message: UIMessage | undefined): Turn {
    const texts = message?.parts.flatMap((part) => (part.type === 'text' ? part.text : []))
    const replaces = message && this.#turnIds.get(message.id)
    const turn = this.#client.submit({
      ...this.#settings,
      threadId: chatId,
      prompt: texts?.join('\n') ?? '',
      ...(replaces !== undefined && { replaces }),
    })
    if (message) this.#turnIds.set(message.id, turn.turnId)
    return turn
  }

  #stop(turnId: string): void {
    // It may have ended in the meantime.
    this.#client.cancel(turnId).catch(() => {})
  }
}

/** Loads the newest turns of a thread with a new client, whose view is complete as soon as it is live. */
async function loadTurns(options: ClientOptions, threadId: string): Promise<readonly TurnView[]> {
  try {
    for await (const { turns, connection } of createClient(options).thread(threadId)) {
      if (connection.status === 'live') return turns
    }
  } catch (error) {
    // A chat without messages.
    if (!(error instanceof ClientError && error.status === 404)) throw error
  }
  return []
}

function isPrompt(item: ItemSnapshot): boolean {
  return item.type === 'message' && item.origin === 'user'
}

function isSettled({ status }: ItemSnapshot): boolean {
  return status === 'complete' || status === 'error'
}

/** The results of the tools that the page ran for the last turn of a message. */
function answersOf({ parts }: UIMessage): ToolAnswer[] {
  const start = parts.findLastIndex(({ type }) => type === 'step-start')
  return parts.slice(start + 1).flatMap((part): ToolAnswer[] => {
    if (!isToolUIPart(part) || part.providerExecuted) return []
    const { toolCallId: callId, state, output, errorText } = part
    if (state === 'output-available') return [{ callId, output }]
    return state === 'output-error' ? [{ callId, output: errorText, success: false }] : []
  })
}

function toPart(item: ItemSnapshot): UIMessage['parts'][number] {
  if (item.type === 'message') return { type: 'text', text: item.content, state: 'done' }
  if (item.type === 'thinking') return { type: 'reasoning', text: item.content, state: 'done' }
  const { callId: toolCallId, toolName, toolArguments: input, toolOutput: output } = item
  const call = { type: 'dynamic-tool', toolCallId, toolName, input } as const
  if (!isSettled(item)) return { ...call, state: 'input-available' }
  const settled = { ...call, providerExecuted: true }
  if (item.status === 'complete') return { ...settled, state: 'output-available', output }
  return { ...settled, state: 'output-error', errorText: item.errorMessage ?? 'The tool failed' }
}

interface StreamOptions {
  /** Turns of the same message, sent first. */
  readonly earlier?: readonly TurnView[]
  /** The ids of calls that the message already shows with their results. */
  readonly answered?: readonly string[]
}

/** The states of a turn, as chunks that each add what is new. */
function toStream(
  turn: Turn,
  messageId: string,
  { earlier = [], answered = [] }: StreamOptions = {},
) {
  const shown = new Map<string, ItemSnapshot>()
  let unsubscribe: (() => void) | undefined

  function* chunksOf({ items }: TurnView): Generator<UIMessageChunk> {
    for (const item of items) {
      const before = shown.get(item.itemId)
      if (item === before || isPrompt(item)) continue
      shown.set(item.itemId, item)
      if (item.type === 'tool_call' && answered.includes(item.callId)) continue
      yield* item.type === 'tool_call' ? toolChunks(item, before) : textChunks(item, before)
    }
  }

  return new ReadableStream<UIMessageChunk>({
    start(controller) {
      const send = (chunks: Iterable<UIMessageChunk>) => {
        for (const chunk of chunks) controller.enqueue(chunk)
      }
      const update = () => {
        const { turn: view, connection } = turn.getSnapshot()
        if (view) send(chunksOf(view))
        if (connection.status !== 'ended' && connection.status !== 'failed') return
        send(endOf(view, connection.cause))
        unsubscribe?.()
        controller.close()
      }
      send([{ type: 'start', messageId }])
      for (const view of earlier) send([{ type: 'start-step' }, ...chunksOf(view)])
      send([{ type: 'start-step' }])
      unsubscribe = turn.subscribe(update)
      // A turn that has failed is tried again now.
      if (turn.getSnapshot().connection.status !== 'failed') update()
    },
    cancel: () => unsubscribe?.(),
  })
}

function* textChunks(item: ItemSnapshot, before?: ItemSnapshot): Generator<UIMessageChunk> {
  if (before && isSettled(before)) return
  const kind = item.type === 'thinking' ? 'reasoning' : 'text'
  const id = item.itemId
  if (!before) yield { type: `${kind}-start`, id }
  const known = before?.content ?? ''
  // The final text may be another one. There is no chunk to replace what was sent.
  const delta = item.content.startsWith(known) ? item.content.slice(known.length) : ''
  if (delta !== '') yield { type: `${kind}-delta`, id, delta }
  if (isSettled(item)) yield { type: `${kind}-end`, id }
}

function* toolChunks(item: ToolCall, before?: ItemSnapshot): Generator<UIMessageChunk> {
  const { callId: toolCallId, toolName, toolArguments: input } = item
  const call = { toolCallId, toolName, dynamic: true } as const
  if (!before) yield { type: 'tool-input-start', ...call }
  const known = before?.type === 'tool_call' ? argumentsOf(before) : ''
  const text = argumentsOf(item)
  const delta = text.startsWith(known) ? text.slice(known.length) : ''
  if (delta !== '') yield { type: 'tool-input-delta', toolCallId, inputTextDelta: delta }
  if (!isSettled(item) || (before && isSettled(before))) return
  // Only now is it known that the call is not for the page.
  yield { type: 'tool-input-available', ...call, input, providerExecuted: true }
  yield item.status === 'error'
    ? { type: 'tool-output-error', toolCallId, errorText: item.errorMessage ?? 'The tool failed' }
    : { type: 'tool-output-available', toolCallId, output: item.toolOutput ?? null }
}

/** What the model has written so far, with `streamArguments`. */
function argumentsOf({ toolArgumentsText, toolArguments }: ToolCall): string {
  return toolArgumentsText ?? JSON.stringify(toolArguments)
}

function* endOf(view: TurnView | undefined, cause?: Error): Generator<UIMessageChunk> {
  const end = view?.end
  for (const { itemId } of end?.pendingCalls ?? []) {
    const item = view?.items.find((each) => each.itemId === itemId)
    if (item?.type !== 'tool_call') continue
    const { callId: toolCallId, toolName, toolArguments: input } = item
    yield { type: 'tool-input-available', toolCallId, toolName, input, dynamic: true }
  }
  yield { type: 'finish-step' }
  if (end?.type !== 'turn_complete') {
    yield { type: 'error', errorText: end?.error.message ?? cause?.message ?? 'The turn is gone' }
  } else if (end.status === 'aborted') {
    yield { type: 'abort' }
  } else {
    yield { type: 'finish', finishReason: FINISH_REASONS[end.finishReason ?? ''] ?? 'other' }
  }
}

const FINISH_REASONS: Partial<Record<string, FinishReason>> = {
  stop: 'stop',
  length: 'length',
  content_filter: 'content-filter',
  tool_calls: 'tool-calls',
}

/** A plain chat. Pass the result of `transport.loadMessages(id)` as `messages`. */
export function Chat({ id, messages: loaded, transport }: ChatProps) {
  const chat = useChat({ id, transport, messages: loaded, resume: true })
  const { messages, sendMessage, status, stop, error } = chat

  function send(event: SyntheticEvent<HTMLFormElement>) {
    event.preventDefault()
    void sendMessage({ text: String(new FormData(event.currentTarget).get('prompt')) })
    event.currentTarget.reset()
  }

  return (
    <form onSubmit={send}>
      {messages.map((message) => (
        <div key={message.id} data-role={message.role}>
          {message.parts.map((part, index) => (
            <p key={index}>{'text' in part ? part.text : isToolUIPart(part) && part.state}</p>
          ))}
        </div>
      ))}
      {error && <p role="alert">{error.message}</p>}
      <input name="prompt" required />
      <button disabled={status !== 'ready' && status !== 'error'}>Send</button>
      <button type="button" onClick={() => void stop()}>
        Stop
      </button>
    </form>
  )
}

interface ChatProps {
  readonly id: string
  readonly messages: UIMessage[]
  readonly transport: TurnstreamTransport
}
