import type { SourceFormat } from '../formats/format.ts'
import { isVendorName, SOURCES, VENDOR_NAMES, type VendorName } from '../formats/registry.ts'
import type { CassetteRequest } from '../protocol/cassette.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { isRecord } from '../protocol/json.ts'
import { parseUrl } from '../protocol/url.ts'

/** The adapter for the responses of an endpoint; undefined if it does not generate. */
export function vendorOf(url: string): VendorName | undefined {
  const path = parseUrl(url)?.pathname.replace(/\/+$/, '') ?? ''
  return VENDOR_NAMES.find((name) => (SOURCES[name] as SourceFormat).endpoint?.test(path))
}

/** Throws CASSETTE_INVALID if the vendor of a call is missing or unknown. */
export function checkVendor(call: number, request: CassetteRequest | undefined): VendorName {
  const { vendor } = request ?? {}
  if (vendor !== undefined && isVendorName(vendor)) return vendor
  const known = VENDOR_NAMES.join(', ')
  const found = vendor === undefined ? 'no vendor' : `the unknown vendor ${vendor}`
  throw new TurnstreamError('CASSETTE_INVALID', `call ${call} has ${found}; known: ${known}`)
}

/** Gemini has the model in its path. */
export function modelOf({ url, body }: CassetteRequest): string {
  const inBody = isRecord(body) ? body['model'] : undefined
  if (typeof inBody === 'string') return inBody
  return /\/models\/([^/:]+):/.exec(url)?.[1] ?? 'unknown'
}
