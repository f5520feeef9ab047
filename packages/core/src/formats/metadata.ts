/** Vendor data in `provider_metadata`, in one namespace per vendor: one refuses what another requires. */

import { EXECUTED_BY_PROVIDER } from '../items/marks.ts'
import { isRecord } from '../protocol/json.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import { asList, type Fields, isEmpty } from './fields.ts'

export function toMetadata(
  namespace: string,
  fields: Fields,
  isExecutedByProvider = false,
): Fields {
  return {
    ...(isExecutedByProvider && { executed_by: EXECUTED_BY_PROVIDER }),
    ...(!isEmpty(fields) && { [namespace]: fields }),
  }
}

/** A vendor's fields of an item; undefined if it came from another vendor. */
export function vendorFields(
  namespace: string,
  { provider_metadata }: OutputItem,
): Fields | undefined {
  const fields = provider_metadata?.[namespace]
  return isRecord(fields) ? fields : undefined
}

/** The vendor's original parts of a text. Undefined if there are none, or if the text has changed. */
export function originalParts(
  text: string,
  stored: unknown,
): (Fields & { text: string })[] | undefined {
  const parts = asList(stored).filter(isStoredPart)
  const length = parts.reduce((sum, part) => sum + part.length, 0)
  if (parts.length === 0 || length !== text.length) return undefined
  let start = 0
  return parts.map(({ length: chars, ...fields }) => {
    return { text: text.slice(start, (start += chars)), ...fields }
  })
}

function isStoredPart(value: unknown): value is { length: number } {
  return isRecord(value) && Number.isSafeInteger(value['length'])
}
