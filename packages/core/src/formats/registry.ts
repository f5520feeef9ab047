import { translateOpenaiChat } from './chat-completions/read.ts'
import { writeChatCompletions } from './chat-completions/write.ts'
import { translateCodex } from './codex/read.ts'
import type { SourceFormat, TargetFormat } from './format.ts'
import { translateGemini } from './gemini/read.ts'
import { translateAnthropicMessages } from './messages/read.ts'
import { writeMessages } from './messages/write.ts'
import { writeResponse } from './response/write.ts'
import { translateResponseNotifications } from './response-notifications/read.ts'
import { translateOpenaiResponses } from './responses/read.ts'
import { writeResponses } from './responses/write.ts'
import { V2Reader } from './v2/read.ts'
import { writeV2 } from './v2/write.ts'
import { writeXapi } from './xapi/write.ts'

/* Every format, by name. Readers and writers are apart, so that a page that reads loads no writers. */

/** Formats that are read. */
export const SOURCES = {
  'openai-responses': {
    title: 'OpenAI Responses',
    translate: translateOpenaiResponses,
    input: 'sse',
    endpoint: /\/responses$/,
  },
  'anthropic-messages': {
    title: 'Anthropic Messages',
    translate: translateAnthropicMessages,
    input: 'sse',
    endpoint: /\/messages$/,
  },
  'openai-chat': {
    title: 'Chat Completions',
    translate: translateOpenaiChat,
    input: 'sse',
    endpoint: /\/chat\/completions$/,
  },
  gemini: {
    title: 'Gemini',
    translate: translateGemini,
    input: 'sse',
    endpoint: /:(?:streamGenerateContent|generateContent)$/,
  },
  codex: { title: 'codex', translate: translateCodex },
  'response-notifications': {
    title: 'response.* notifications',
    translate: translateResponseNotifications,
  },
  v2: { title: 'turnstream StreamEvents', read: () => new V2Reader() },
} as const satisfies Record<string, SourceFormat>

/** Formats that are written. */
export const TARGETS = {
  v2: writeV2,
  xapi: writeXapi,
  response: writeResponse,
  'chat-completions': writeChatCompletions,
  'openai-responses': writeResponses,
  'anthropic-messages': writeMessages,
} as const satisfies Record<string, TargetFormat>

export type SourceName = keyof typeof SOURCES
export type TargetName = keyof typeof TARGETS
/** A provider's format. */
export type VendorName = Exclude<keyof typeof SOURCES, 'v2'>

// Without the mark, a bundler would keep the tables for the names.
export const SOURCE_NAMES = /* @__PURE__ */ Object.keys(SOURCES) as SourceName[]
export const TARGET_NAMES = /* @__PURE__ */ Object.keys(TARGETS) as TargetName[]
export const VENDOR_NAMES = /* @__PURE__ */ SOURCE_NAMES.filter((name) => name !== 'v2')

export function isVendorName(name: string): name is VendorName {
  return (VENDOR_NAMES as readonly string[]).includes(name)
}
