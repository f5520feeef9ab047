/** What we keep of the vendor in `provider_metadata`: written by translate, read by request. */
import { isRecord } from '../../protocol/json.ts'
import { EXECUTED_BY_PROVIDER } from '../../protocol/tool-execution.ts'

export type Fields = Record<string, unknown>

const NAMESPACE = 'google'

export function metadataOf(fields: Fields, isExecutedByProvider = false): Fields {
  return {
    ...(isExecutedByProvider && { executed_by: EXECUTED_BY_PROVIDER }),
    ...(Object.keys(fields).length > 0 && { [NAMESPACE]: fields }),
  }
}

/** What an item carries of this vendor; undefined when it came from another one. */
export function vendorFieldsOf(metadata: Fields | undefined): Fields | undefined {
  const fields = metadata?.[NAMESPACE]
  return isRecord(fields) ? fields : undefined
}
