import { type HttpProviderOptions, httpProvider } from '../http-provider.ts'
import type { Provider } from '../provider.ts'
import { buildGeminiRequest } from './request.ts'
import { translateGemini } from './translate.ts'

/** Google's Gemini models. */
export function createGeminiProvider(options: HttpProviderOptions = {}): Provider {
  return httpProvider('gemini', buildGeminiRequest, translateGemini, options)
}
