/** What we keep of the server in `provider_metadata`: written by translate, read by request. */
import { isRecord } from '../../protocol/json.ts'
import type { Fields } from './ending.ts'

/**
 * Under the name of the provider, not of the protocol: servers that speak it refuse what others of
 * them demand.
 */
export function metadataOf(providerId: string, fields: Fields): Fields {
  return Object.keys(fields).length > 0 ? { [providerId]: fields } : {}
}

/** What an item carries of this provider; undefined when it came from another one. */
export function vendorFieldsOf(
  metadata: Fields | undefined,
  providerId: string,
): Fields | undefined {
  const fields = metadata?.[providerId]
  return isRecord(fields) ? fields : undefined
}
