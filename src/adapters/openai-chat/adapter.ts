import { httpProvider } from '../http-provider.ts'
import type { Provider } from '../provider.ts'
import { buildOpenaiChatRequest, OPENAI_CHAT_ID, type OpenaiChatOptions } from './request.ts'
import { translateOpenaiChat } from './translate.ts'

/**
 * Any server that speaks Chat Completions: OpenAI, and by its `baseUrl` vLLM, Ollama, OpenRouter,
 * DeepSeek, Groq and others. Give each its own `id`: what one server wants back, another refuses.
 */
export function createOpenaiChatProvider(options: OpenaiChatOptions = {}): Provider {
  return httpProvider(OPENAI_CHAT_ID, buildOpenaiChatRequest, translateOpenaiChat, options)
}
