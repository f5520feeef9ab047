import type { Clock } from '../async/clock.ts'
import {
  ChatCompletionsEncoder,
  chatCompletionsJsonLines,
  chatCompletionsSse,
} from '../dialects/chat-completions/encode.ts'
import { v2Sse } from '../dialects/v2/encode.ts'
import { xapiSse } from '../dialects/xapi/encode.ts'
import { StreamProcessor } from '../processor/stream-processor.ts'
import type { StreamEvent, StreamEventPayload } from '../protocol/stream-event.ts'
import { ResponseReducer } from '../reducer/response-reducer.ts'
import { encodeSse } from '../sse/encode.ts'

export const TARGET_NAMES = ['v2', 'xapi', 'response', 'chat-completions'] as const
export type TargetName = (typeof TARGET_NAMES)[number]

export interface TargetOptions {
  /** One JSON object to a line instead of SSE. */
  json: boolean
  includeUsage: boolean
  write: (text: string) => Promise<void>
  clock: Clock
}

/** Writes the events of one response after another in a dialect. */
export interface Target {
  event(event: StreamEvent): Promise<void>
  end(): Promise<void>
}

/** Tells one response; a new one is made for each `response_start`. */
interface Teller {
  event(event: StreamEvent): Promise<void> | void
  end(): Promise<void> | void
}

type Start = StreamEventPayload<'response_start'>

export function createTarget(name: TargetName, options: TargetOptions): Target {
  let offset = 0
  let teller: Teller | undefined
  const nextOffset = (): string => {
    offset += 1
    return `1-${offset}`
  }
  return {
    async event(event) {
      if (event.type === 'response_start') {
        await teller?.end()
        offset = 0
        teller = TELLERS[name](event.payload, options, nextOffset)
      }
      await teller?.event(event)
    },
    async end() {
      await teller?.end()
      teller = undefined
    },
  }
}

const TELLERS: Record<
  TargetName,
  (start: Start, options: TargetOptions, nextOffset: () => string) => Teller
> = {
  v2: (_start, { json, write }, nextOffset) => ({
    event: (event) => write(json ? line(event) : v2Sse(nextOffset(), event)),
    end() {},
  }),
  xapi: tellXapi,
  response: (_start, options) => tellResponse(options),
  'chat-completions': (start, options) => tellChatCompletions(start, options),
}

function tellXapi(start: Start, { json, write, clock }: TargetOptions, nextOffset: () => string) {
  const processor = new StreamProcessor({
    turnId: start.turn_id,
    threadId: start.thread_id,
    clock,
    onEmit: ({ payload }) => write(json ? `${payload}\n` : xapiSse(nextOffset(), payload)),
  })
  return {
    event: (event: StreamEvent) => processor.processEvent(event),
    end: () => processor.destroy(),
  }
}

function tellResponse({ json, write }: TargetOptions): Teller {
  const reducer = new ResponseReducer()
  return {
    event(event) {
      reducer.apply(event)
    },
    end() {
      const { response } = reducer
      return write(json ? line(response) : encodeSse({ data: JSON.stringify(response) }))
    },
  }
}

function tellChatCompletions(start: Start, { json, includeUsage, write }: TargetOptions): Teller {
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
}

function line(value: unknown): string {
  return `${JSON.stringify(value)}\n`
}
