import { translateAnthropicMessages } from '../adapters/anthropic-messages/translate.ts'
import { translateCodex } from '../adapters/codex/translate.ts'
import { EventStamp } from '../adapters/event-stamp.ts'
import { translateGemini } from '../adapters/gemini/translate.ts'
import { translateOpenaiChat } from '../adapters/openai-chat/translate.ts'
import { translateOpenaiResponses } from '../adapters/openai-responses/translate.ts'
import { translateResponseNotifications } from '../adapters/response-notifications/translate.ts'
import type { Translation, TranslationContext } from '../adapters/translation.ts'
import type { InputFault } from '../adapters/vendor-input.ts'
import { VendorReader } from '../adapters/vendor-reader.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'
import { V2Source } from './v2-source.ts'

const VENDORS = {
  'openai-responses': translateOpenaiResponses,
  'anthropic-messages': translateAnthropicMessages,
  'openai-chat': translateOpenaiChat,
  gemini: translateGemini,
  codex: translateCodex,
  'response-notifications': translateResponseNotifications,
} as const satisfies Record<string, (context: TranslationContext) => Translation>

type VendorName = keyof typeof VENDORS
export type SourceName = VendorName | 'v2'

export const SOURCE_NAMES: readonly SourceName[] = [...(Object.keys(VENDORS) as VendorName[]), 'v2']

/** Bytes in, StreamEvents out. */
export interface Source {
  readonly fault: InputFault | undefined
  feed(chunk: Uint8Array): readonly StreamEvent[]
  end(): readonly StreamEvent[]
}

export interface SourceOptions {
  runId: string
  threadId: string
  now: () => number
  onUnknown: (type: string) => void
}

export function createSource(name: SourceName, options: SourceOptions): Source {
  const { runId, threadId, now, onUnknown } = options
  if (name === 'v2') return new V2Source()
  const translation = VENDORS[name]({
    runId,
    turnId: runId,
    threadId,
    providerId: name,
    modelId: 'unknown',
    now,
    onUnknown,
  })
  return new VendorReader(translation, new EventStamp({ now }))
}
