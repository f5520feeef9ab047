import { encodeSse } from '../../sse/encode.ts'

/** A snapshot: the payload of a StreamMessage, which is JSON already, without its envelope. */
export function xapiSse(offset: string, payload: string): string {
  return encodeSse({ id: offset, data: payload })
}
