export * from '@turnstream/core'
export * from '@turnstream/core/schemas'
export type {
  CallObserver,
  HttpProviderOptions,
  ObservedCall,
  TimeLimits,
} from './providers/http-provider.ts'
export type { Provider } from './providers/provider.ts'
export type { ModelClient } from './providers/response-events.ts'
export {
  createScriptedProvider,
  type ScriptedProviderOptions,
} from './providers/scripted/provider.ts'
export type { OpenaiChatOptions } from './providers/vendors.ts'
export {
  createAnthropicMessagesProvider,
  createGeminiProvider,
  createOpenaiChatProvider,
  createOpenaiResponsesProvider,
} from './providers/vendors.ts'
