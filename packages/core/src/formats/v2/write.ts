import type { StreamEvent } from '../../protocol/stream-event.ts'
import { encodeSse } from '../../sse/encode.ts'
import { encoderWriter, type TargetFormat } from '../format.ts'

/** Encodes a StreamEvent with its offset as the id to resume from. */
export function v2Sse(offset: string, event: StreamEvent): string {
  return encodeSse({ id: offset, data: JSON.stringify(event) })
}

export const writeV2: TargetFormat = (_start, options) => {
  const encodeNext = (event: StreamEvent) => v2Sse(options.nextOffset(), event)
  return encoderWriter({ encode: (event) => [event], encodeSse: encodeNext }, options)
}
