import type { StreamEvent } from '../../protocol/stream-event.ts'
import { encodeSse } from '../../sse/encode.ts'

/** Encodes a StreamEvent with its offset as the id to resume from. */
export function v2Sse(offset: string, event: StreamEvent): string {
  return encodeSse({ id: offset, data: JSON.stringify(event) })
}
