import { type HttpProviderOptions, httpProvider } from '../http-provider.ts'
import type { Provider } from '../provider.ts'
import { buildOpenaiResponsesRequest } from './request.ts'
import { translateOpenaiResponses } from './translate.ts'

/** OpenAI's Responses API, or a server that speaks it. */
export function createOpenaiResponsesProvider(options: HttpProviderOptions = {}): Provider {
  return httpProvider('openai', buildOpenaiResponsesRequest, translateOpenaiResponses, options)
}
