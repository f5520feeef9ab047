import { TRANSLATIONS, type VendorName } from '../formats/read-events.ts'
import type { CassetteRequest } from '../protocol/cassette.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { isRecord } from '../protocol/json.ts'
import { parseUrl } from '../protocol/url.ts'

/** Endpoints that generate, by the end of their path. */
const ENDPOINTS: readonly (readonly [RegExp, VendorName])[] = [
  [/\/chat\/completions$/, 'openai-chat'],
  [/\/responses$/, 'openai-responses'],
  [/\/messages$/, 'anthropic-messages'],
  [/:(?:streamGenerateContent|generateContent)$/, 'gemini'],
]

/** The adapter for the responses of an endpoint; undefined if it does not generate. */
export function vendorOf(url: string): VendorName | undefined {
  const path = parseUrl(url)?.pathname.replace(/\/+$/, '') ?? ''
  return ENDPOINTS.find(([pattern]) => pattern.test(path))?.[1]
}

/** Throws CASSETTE_INVALID if the vendor of a call is missing or unknown. */
export function checkVendor(call: number, request: CassetteRequest | undefined): VendorName {
  const { vendor } = request ?? {}
  if (vendor !== undefined && Object.hasOwn(TRANSLATIONS, vendor)) return vendor as VendorName
  const known = Object.keys(TRANSLATIONS).join(', ')
  const found = vendor === undefined ? 'no vendor' : `the unknown vendor ${vendor}`
  throw new TurnstreamError('CASSETTE_INVALID', `call ${call} has ${found}; known: ${known}`)
}

/** Gemini has the model in its path. */
export function modelOf({ url, body }: CassetteRequest): string {
  const inBody = isRecord(body) ? body['model'] : undefined
  if (typeof inBody === 'string') return inBody
  return /\/models\/([^/:]+):/.exec(url)?.[1] ?? 'unknown'
}
