/** What we keep of the vendor in `provider_metadata`: written by translate, read by request. */
import { isRecord } from '../../protocol/json.ts'
import { EXECUTED_BY_PROVIDER } from '../../protocol/tool-execution.ts'

export type VendorFields = Record<string, unknown>

const NAMESPACE = 'anthropic'

export function metadataOf(fields: VendorFields, isExecutedByProvider = false): VendorFields {
  return {
    ...(isExecutedByProvider && { executed_by: EXECUTED_BY_PROVIDER }),
    ...(Object.keys(fields).length > 0 && { [NAMESPACE]: fields }),
  }
}

/** What an item carries of this vendor; undefined when it came from another one. */
export function vendorFieldsOf(metadata: VendorFields | undefined): VendorFields | undefined {
  const fields = metadata?.[NAMESPACE]
  return isRecord(fields) ? fields : undefined
}
