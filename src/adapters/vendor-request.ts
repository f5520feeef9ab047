/** What the requests to all vendors have in common. */
import { TurnstreamError } from '../protocol/errors.ts'
import type { Attachment, OutputItem } from '../protocol/output-item.ts'
import type { HttpProviderOptions } from './http-provider.ts'
import type { ProviderRequest } from './provider.ts'

/** The request in the vendor's form. JSON leaves out the fields of `body` that are undefined. */
export interface VendorRequest {
  url: string
  headers: Record<string, string>
  body: Record<string, unknown>
}

export type RequestOptions = Pick<HttpProviderOptions, 'baseUrl' | 'apiKey' | 'headers'>

export function joinUrl(baseUrl: string, path: string): string {
  return `${baseUrl.replace(/\/+$/, '')}${path}`
}

export function bearer(apiKey: string | undefined): Record<string, string> {
  return apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
}

/** Why a request cannot be sent to this vendor. */
export function invalidOption(name: string, reason: string): TurnstreamError {
  return new TurnstreamError('OPTION_INVALID', `${name}: ${reason}`)
}

type ToolChoice = NonNullable<ProviderRequest['toolChoice']>

/**
 * The choice as it may be sent: vendors refuse one where there is nothing to choose from. Throws when
 * it cannot be honoured.
 */
export function toolChoiceOf({ tools = [], toolChoice }: ProviderRequest): ToolChoice | undefined {
  if (tools.length === 0) {
    if (toolChoice === undefined || toolChoice === 'auto' || toolChoice === 'none') return undefined
    throw invalidOption('toolChoice', 'there are no tools to choose from')
  }
  if (typeof toolChoice !== 'object') return toolChoice
  if (tools.some(({ name }) => name === toolChoice.name)) return toolChoice
  throw invalidOption('toolChoice', `there is no tool ${toolChoice.name}`)
}

export function imagesOf({ attachments = [] }: Extract<OutputItem, { type: 'message' }>) {
  return attachments.filter(({ type }) => type === 'image')
}

export function dataUrl({ media_type, data }: Attachment): string {
  return `data:${media_type};base64,${data}`
}
