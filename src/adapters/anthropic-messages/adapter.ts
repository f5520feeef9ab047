import { type HttpProviderOptions, httpProvider } from '../http-provider.ts'
import type { Provider } from '../provider.ts'
import { buildAnthropicMessagesRequest } from './request.ts'
import { translateAnthropicMessages } from './translate.ts'

/** Anthropic's Messages API, or a server that speaks it. */
export function createAnthropicMessagesProvider(options: HttpProviderOptions = {}): Provider {
  return httpProvider(
    'anthropic',
    buildAnthropicMessagesRequest,
    translateAnthropicMessages,
    options,
  )
}
