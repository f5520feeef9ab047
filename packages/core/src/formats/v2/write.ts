import type { StreamEvent } from '../../protocol/stream-event.ts'
import { encodeSse } from '../../sse/encode.ts'
import {
  type EventWriter,
  encoderWriter,
  type ResponseStart,
  type WriterOptions,
} from '../format.ts'

/** Encodes a StreamEvent with its offset as the id to resume from. */
export function v2Sse(offset: string, event: StreamEvent): string {
  return encodeSse({ id: offset, data: JSON.stringify(event) })
}

export function writeV2(_start: ResponseStart, options: WriterOptions): EventWriter {
  const encoder = {
    encode: (event: StreamEvent) => [event],
    encodeSse: (event: StreamEvent) => v2Sse(options.nextOffset(), event),
  }
  return encoderWriter(encoder, options)
}
