import {
  ChatCompletionsEncoder,
  chatCompletionsJsonLines,
  chatCompletionsSse,
} from '../dialects/chat-completions/encode.ts'
import { v2Sse } from '../dialects/v2/encode.ts'
import { xapiSse } from '../dialects/xapi/encode.ts'
import { StreamProcessor } from '../processor/stream-processor.ts'
import type { StreamEvent, StreamEventPayload } from '../protocol/stream-event.ts'
import { ResponseReducer } from '../reducer/reduce.ts'
import { encodeSse } from '../sse/encode.ts'
import { EXIT, type ExitCode } from './command.ts'
import type { Terminal } from './terminal.ts'
import { jsonLine } from './text.ts'

export const TARGET_NAMES = ['v2', 'xapi', 'response', 'chat-completions'] as const
export type TargetName = (typeof TARGET_NAMES)[number]

/** The options of every command that writes events. */
export const TARGET_OPTION = {
  value: 'format',
  about: TARGET_NAMES.join(' | '),
  choices: TARGET_NAMES,
} as const
export const TARGET_FLAGS = {
  json: { about: 'one JSON object to a line instead of SSE' },
  'include-usage': { about: 'with --to chat-completions: a last chunk with the tokens used' },
} as const

export interface TargetOptions extends Pick<Terminal, 'write' | 'clock'> {
  /** One JSON object to a line instead of SSE. */
  readonly json: boolean
  readonly includeUsage: boolean
}

/** Writes events in a dialect. */
export interface Target {
  event(event: StreamEvent): Promise<void> | void
  end(): Promise<void> | void
}

/** Writes a stream to its end. `EXIT.failed` when a turn of it ended as an error. */
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

/** A target for one response after another. Each `response_start` gets a new encoder. */
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
}
