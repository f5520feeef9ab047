import { OPENAI_CHAT } from '@turnstream/core/internal/formats/chat-completions/request-out'
import { GEMINI } from '@turnstream/core/internal/formats/gemini/request-out'
import { ANTHROPIC } from '@turnstream/core/internal/formats/messages/request-out'
import { OPENAI } from '@turnstream/core/internal/formats/responses/request-out'
import { type HttpProviderOptions, httpProvider } from './http-provider.ts'
import type { ModelClient } from './response-events.ts'

export interface OpenaiChatOptions extends HttpProviderOptions {
  /** Sends `max_tokens`, for servers without `max_completion_tokens`. */
  legacyMaxTokens?: boolean
}

/** Anthropic's Messages API, or a compatible server. */
export function createAnthropicMessagesProvider(options: HttpProviderOptions = {}): ModelClient {
  return httpProvider(ANTHROPIC, options)
}

/** Google's Gemini models. */
export function createGeminiProvider(options: HttpProviderOptions = {}): ModelClient {
  return httpProvider(GEMINI, options)
}

/**
 * Any Chat Completions server: OpenAI, or by its `baseUrl` vLLM, Ollama, OpenRouter, DeepSeek, Groq and others. Give
 * each its own `id`: one server refuses the metadata of another.
 */
export function createOpenaiChatProvider(options: OpenaiChatOptions = {}): ModelClient {
  return httpProvider(OPENAI_CHAT, options)
}

/** OpenAI's Responses API, or a compatible server. */
export function createOpenaiResponsesProvider(options: HttpProviderOptions = {}): ModelClient {
  return httpProvider(OPENAI, options)
}
