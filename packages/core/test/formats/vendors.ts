/** The providers that are called over HTTP, by their ids in the settings of a server. */

import {
  createAnthropicMessagesProvider,
  createGeminiProvider,
  createOpenaiChatProvider,
  createOpenaiResponsesProvider,
  type HttpProviderOptions,
  type Provider,
} from '../../../turnstream/src/index.ts'

export interface VendorRow {
  readonly create: (options: HttpProviderOptions) => Provider
  /** Where it calls, below its base URL, for the model `m`. */
  readonly path: string
  /** The header that holds the key, and what stands before it. */
  readonly keyHeader: readonly [name: string, before: string]
  /** An error in the middle of its stream. */
  readonly errorEvent: (message: string) => unknown
}

export const VENDORS: Record<string, VendorRow> = {
  openai: {
    create: createOpenaiResponsesProvider,
    path: '/responses',
    keyHeader: ['authorization', 'Bearer '],
    errorEvent: (message) => ({ type: 'error', code: 'server_error', message }),
  },
  anthropic: {
    create: createAnthropicMessagesProvider,
    path: '/v1/messages',
    keyHeader: ['x-api-key', ''],
    errorEvent: (message) => ({ type: 'error', error: { type: 'api_error', message } }),
  },
  gemini: {
    create: createGeminiProvider,
    path: '/v1beta/models/m:streamGenerateContent?alt=sse',
    keyHeader: ['x-goog-api-key', ''],
    errorEvent: (message) => ({ error: { code: 500, status: 'INTERNAL', message } }),
  },
  'openai-compatible': {
    create: createOpenaiChatProvider,
    path: '/chat/completions',
    keyHeader: ['authorization', 'Bearer '],
    errorEvent: (message) => ({ error: { code: 'server_error', message } }),
  },
}
