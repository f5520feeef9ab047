import {
  ChatCompletionsEncoder,
  chatCompletionsJsonLines,
  chatCompletionsSse,
} from '@turnstream/core/internal/formats/chat-completions/write'
import { EventStamp } from '@turnstream/core/internal/formats/event-stamp'
import { MessagesEncoder } from '@turnstream/core/internal/formats/messages/write'
import { TRANSLATIONS, type VendorName } from '@turnstream/core/internal/formats/read-events'
import { ResponsesEncoder } from '@turnstream/core/internal/formats/responses/write'
import type { TranslationContext } from '@turnstream/core/internal/formats/translation'
import { v2Sse } from '@turnstream/core/internal/formats/v2/write'
import {
  type InputFault,
  VendorInput,
  VendorReader,
} from '@turnstream/core/internal/formats/vendor-input'
import { xapiSse } from '@turnstream/core/internal/formats/xapi/write'
import { OpenItems } from '@turnstream/core/internal/items/open-items'
import { StreamProcessor } from '@turnstream/core/internal/processor/stream-processor'
import { generateEventId } from '@turnstream/core/internal/protocol/ids'
import type {
  ErrorObject,
  StreamEvent,
  StreamEventPayload,
} from '@turnstream/core/internal/protocol/stream-event'
import {
  isStreamEvent,
  normalizeEvent,
  streamEventFault,
} from '@turnstream/core/internal/protocol/stream-event-guard'
import { ResponseReducer } from '@turnstream/core/internal/reducer/reduce'
import { encodeSse } from '@turnstream/core/internal/sse/encode'
import { EXIT, type ExitCode } from './command.ts'
import type { Terminal } from './terminal.ts'
import { jsonLine } from './text.ts'

export type SourceName = VendorName | 'v2'

export const SOURCE_NAMES: readonly SourceName[] = [
  ...(Object.keys(TRANSLATIONS) as VendorName[]),
  'v2',
]

/** Bytes in, StreamEvents out. */
export interface Source {
  readonly fault: InputFault | undefined
  feed(chunk: Uint8Array): readonly StreamEvent[]
  end(): readonly StreamEvent[]
}

type SourceOptions = Pick<TranslationContext, 'runId' | 'threadId' | 'now' | 'onUnknown'>

export function createSource(name: SourceName, options: SourceOptions): Source {
  if (name === 'v2') return new V2Source()
  const context = { ...options, turnId: options.runId, providerId: name, modelId: 'unknown' }
  const reader = new VendorReader(TRANSLATIONS[name](context))
  const stamp = new EventStamp({ now: options.now })
  return {
    get fault() {
      return reader.fault
    },
    feed: (chunk) => reader.feed(chunk).map((payload) => stamp.stamp(payload)),
    end: () => reader.end().map((payload) => stamp.stamp(payload)),
  }
}

const TERMINALS = new Set(['response_done', 'response_error', 'turn_aborted_by_user'])

/** Raw events as input: passed on unchanged, and ended as an error when truncated. */
export class V2Source implements Source {
  readonly #input = new VendorInput((event) => this.#take(event))
  readonly #openItems = new OpenItems()
  readonly #events: StreamEvent[] = []
  #last: StreamEvent | undefined
  #isOpen = false
  #badEvent: InputFault | undefined

  get fault(): InputFault | undefined {
    return this.#badEvent ?? this.#input.fault
  }

  feed(chunk: Uint8Array): readonly StreamEvent[] {
    this.#input.feed(chunk)
    return this.#events.splice(0)
  }

  end(): readonly StreamEvent[] {
    this.#input.end()
    if (this.#isOpen) this.#truncate()
    return this.#events.splice(0)
  }

  #take(given: unknown): void {
    if (this.fault !== undefined) return
    const event = normalizeEvent(given, { started: this.#openItems.soFar })
    const reason = streamEventFault(event)
    if (reason !== undefined) this.#badEvent = { at: this.#input.position, reason }
    else if (isStreamEvent(event)) this.#add(event)
  }

  #add(event: StreamEvent): void {
    const { payload } = event
    this.#openItems.take(payload)
    if (payload.type === 'response_start') this.#isOpen = true
    if (TERMINALS.has(payload.type)) this.#isOpen = false
    this.#last = event
    this.#events.push(event)
  }

  /** Ends open items as errors. */
  #truncate(): void {
    if (this.#last === undefined) return
    const { run_id, trace_context, timestamp } = this.#last
    const error: ErrorObject =
      this.fault === undefined
        ? { code: 'UPSTREAM_TRUNCATED', message: 'The recording ends before the turn' }
        : { code: 'UPSTREAM_MALFORMED', message: this.fault.reason }
    const failed = this.#openItems.all.map(
      ({ start: { item_id } }) => ({ type: 'item_error', item_id, error }) as const,
    )
    const end = { type: 'response_error', response_id: run_id, error } as const
    for (const payload of [...failed, end]) {
      const event_id = generateEventId()
      const event = { event_id, timestamp, trace_context, run_id, type: payload.type, payload }
      this.#events.push(event as StreamEvent)
    }
  }
}

export const TARGET_NAMES = [
  'v2',
  'xapi',
  'response',
  'chat-completions',
  'openai-responses',
  'anthropic-messages',
] as const
export type TargetName = (typeof TARGET_NAMES)[number]

/** The options of every command that writes events. */
export const TARGET_OPTION = {
  value: 'format',
  about: TARGET_NAMES.join(' | ').replace('| openai', '|\nopenai'),
  choices: TARGET_NAMES,
} as const
export const TARGET_FLAGS = {
  json: { about: 'write JSON lines instead of SSE' },
  'include-usage': { about: 'with --to chat-completions: add a usage chunk at the end' },
} as const

export interface TargetOptions extends Pick<Terminal, 'write' | 'clock'> {
  /** JSON lines instead of SSE. */
  readonly json: boolean
  readonly includeUsage: boolean
}

/** Writes events in a dialect. */
export interface Target {
  event(event: StreamEvent): Promise<void> | void
  end(): Promise<void> | void
}

/** Writes a stream to its end. `EXIT.failed` when a turn failed. */
export async function writeEvents(
  events: AsyncIterable<StreamEvent>,
  to: TargetName,
  { json, 'include-usage': includeUsage }: Record<keyof typeof TARGET_FLAGS, boolean>,
  { write, clock, progress }: Terminal,
): Promise<ExitCode> {
  const target = createTarget(to, { json, includeUsage, write, clock })
  let hasFailed = false
  try {
    for await (const event of events) {
      const { type, payload } = event
      hasFailed ||= type === 'response_error'
      hasFailed ||= payload.type === 'response_done' && payload.status === 'error'
      await target.event(event)
    }
    await target.end()
  } finally {
    progress('')
  }
  return hasFailed ? EXIT.failed : EXIT.done
}

/** A target for several responses. Each `response_start` gets a new encoder. */
export function createTarget(name: TargetName, options: TargetOptions): Target {
  let offset = 0
  let target: Target | undefined
  const nextOffset = (): string => {
    offset += 1
    return `1-${offset}`
  }
  return {
    async event(event) {
      if (event.type === 'response_start') {
        await target?.end()
        offset = 0
        target = ENCODERS[name](event.payload, options, nextOffset)
      }
      await target?.event(event)
    },
    async end() {
      await target?.end()
      target = undefined
    },
  }
}

type Encoder = (
  start: StreamEventPayload<'response_start'>,
  options: TargetOptions,
  nextOffset: () => string,
) => Target

const ENCODERS: Record<TargetName, Encoder> = {
  v2: (_start, { json, write }, nextOffset) => ({
    event: (event) => write(json ? jsonLine(event) : v2Sse(nextOffset(), event)),
    end() {},
  }),
  xapi: (start, { json, write, clock }, nextOffset) => {
    const processor = new StreamProcessor({
      turnId: start.turn_id,
      threadId: start.thread_id,
      clock,
      onEmit: ({ payload }) => write(json ? `${payload}\n` : xapiSse(nextOffset(), payload)),
    })
    return { event: (event) => processor.processEvent(event), end: () => processor.destroy() }
  },
  response: (_start, { json, write }) => {
    const reducer = new ResponseReducer()
    return {
      event: (event) => void reducer.apply(event),
      end() {
        const { response } = reducer
        return write(json ? jsonLine(response) : encodeSse({ data: JSON.stringify(response) }))
      },
    }
  },
  'chat-completions': (start, { json, includeUsage, write }) => {
    const encoder = new ChatCompletionsEncoder({
      id: `chatcmpl-${start.response_id}`,
      model: start.model_id,
      created: Math.floor(start.created_at / 1000),
      includeUsage,
    })
    const encode = json ? chatCompletionsJsonLines : chatCompletionsSse
    return {
      event(event) {
        const text = encode(encoder, event)
        return text === '' ? undefined : write(text)
      },
      end() {},
    }
  },
  'openai-responses': (start, { json, write }) => {
    const { turn_id: turnId, model_id: model, created_at: createdAt } = start
    return vendorTarget(new ResponsesEncoder({ turnId, model, createdAt }), json, write)
  },
  'anthropic-messages': ({ turn_id: turnId, model_id: model }, { json, write }) =>
    vendorTarget(new MessagesEncoder({ turnId, model }), json, write),
}

function vendorTarget(
  encoder: ResponsesEncoder | MessagesEncoder,
  json: boolean,
  write: TargetOptions['write'],
): Target {
  return {
    event(event) {
      const text = json ? encoder.encode(event).map(jsonLine).join('') : encoder.encodeSse(event)
      return text === '' ? undefined : write(text)
    },
    end() {},
  }
}
