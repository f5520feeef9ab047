import { isRecord } from './json.ts'

/**
 * Whether a message says that the model will not answer: adapters note `refusal: true` among the
 * fields of their vendor.
 */
export function isRefusal(metadata: Record<string, unknown> | undefined): boolean {
  if (metadata === undefined) return false
  return Object.values(metadata).some((fields) => isRecord(fields) && fields['refusal'] === true)
}
