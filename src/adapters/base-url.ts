import { TurnstreamError } from '../protocol/errors.ts'

export const BASE_URL_TAKES =
  'an http:// or https:// address without a user, a password and a query'

/**
 * Whether a vendor can be called at an address. Credentials and queries are refused: they would be lost, or
 * stand in every message that names the address.
 */
export function isBaseUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return /^https?:$/.test(protocol) && [username, password, search, hash].every((part) => !part)
}

/** In a browser it may be a path of the page's own host. The refusal does not repeat what may be a secret. */
export function checkBaseUrl(baseUrl: string | undefined): void {
  if (baseUrl === undefined || /^\/(?!\/)[^?#]*$/.test(baseUrl) || isBaseUrl(baseUrl)) return
  throw new TurnstreamError('OPTION_INVALID', `baseUrl takes ${BASE_URL_TAKES}`)
}
