/**
 * Who issued the vendor data of an item. Signatures and encrypted reasoning are valid only for the account that created
 * them: two providers of one vendor refuse each other's.
 */

import { isRecord } from '../protocol/json.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { StreamEventPayload } from '../protocol/stream-event.ts'
import type { Fields } from './fields.ts'

/** The field of `provider_metadata` with the id of the provider. */
const ISSUER = 'issuer'

export function withIssuer(payload: StreamEventPayload, issuer: string): StreamEventPayload {
  if (payload.type === 'item_start') return { ...payload, ...stamped(payload, issuer) }
  if (payload.type !== 'item_done') return payload
  const { final_item } = payload
  return { ...payload, final_item: { ...final_item, ...stamped(final_item, issuer) } }
}

interface Described {
  provider_metadata?: Fields
}

function stamped({ provider_metadata: metadata }: Described, issuer: string): Described {
  if (metadata === undefined || !hasVendorFields(metadata)) return {}
  return { provider_metadata: { ...metadata, [ISSUER]: issuer } }
}

function hasVendorFields(metadata: Fields): boolean {
  return Object.values(metadata).some(isRecord)
}

export function vendorData({ provider_metadata: metadata = {} }: OutputItem): Fields | undefined {
  const fields = Object.entries(metadata).filter(([, value]) => isRecord(value))
  return fields.length === 0 ? undefined : Object.fromEntries(fields)
}

/** The item as this provider may see it. Of a compaction the vendor decides whether it is valid. */
export function forProvider(item: OutputItem, providerId: string): OutputItem {
  const issuer = item.provider_metadata?.[ISSUER]
  const isKept = issuer === undefined || issuer === providerId || isCompaction(item)
  return isKept ? item : withoutVendorFields(item)
}

/** The item as every provider may see it: our own marks stay, such as who ran a call. */
export function withoutVendorFields(item: OutputItem): OutputItem {
  const { provider_metadata: metadata, ...rest } = item
  if (metadata === undefined || !hasVendorFields(metadata)) return item
  const marks = Object.entries(metadata).filter(([, value]) => !isRecord(value))
  return { ...rest, provider_metadata: Object.fromEntries(marks) }
}

/** Whether an item stands for the conversation before it, which would be lost without its vendor data. */
export function isCompaction({ provider_metadata: metadata = {} }: OutputItem): boolean {
  return Object.values(metadata).some((fields) => {
    const own = isRecord(fields) && isRecord(fields['block']) ? fields['block'] : fields
    return isRecord(own) && COMPACTIONS.has(own['type'])
  })
}

const COMPACTIONS = new Set<unknown>(['compaction', 'compaction_summary'])

// Errors by which vendors refuse such data, also inside the error of a proxy, where quotes are escaped.

/** OpenAI: `invalid_encrypted_content`, "The encrypted content … could not be verified." */
export const ENCRYPTED_CONTENT_REFUSED =
  /invalid_encrypted_content|encrypted content.{0,200}could not be (?:verified|decrypted|parsed)/i

/**
 * Anthropic: "Invalid `signature` in `thinking` block", "`thinking` or `redacted_thinking` blocks in the latest assistant
 * message cannot be modified", "Expected `thinking` or `redacted_thinking`, but found `tool_use`".
 */
export const THINKING_REFUSED =
  /invalid\W+(?:signature|data)\W+in\W+(?:redacted_)?thinking|thinking\W+blocks.{0,200}cannot be modified|expected\W+thinking\W+or\W+redacted_thinking/i

/** Gemini: "Corrupted thought signature.", "Function call is missing a thought_signature in functionCall parts." */
export const THOUGHT_SIGNATURE_REFUSED = /thought[ _]?signature/i
