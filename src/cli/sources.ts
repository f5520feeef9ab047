import { EventStamp } from '../adapters/event-stamp.ts'
import { TRANSLATIONS, type VendorName } from '../adapters/read-events.ts'
import type { InputFault } from '../adapters/vendor-input.ts'
import { VendorReader } from '../adapters/vendor-reader.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'
import { V2Source } from './v2-source.ts'

export type SourceName = VendorName | 'v2'

export const SOURCE_NAMES: readonly SourceName[] = [
  ...(Object.keys(TRANSLATIONS) as VendorName[]),
  'v2',
]

/** Bytes in, StreamEvents out. */
export interface Source {
  readonly fault: InputFault | undefined
  feed(chunk: Uint8Array): readonly StreamEvent[]
  end(): readonly StreamEvent[]
}

export interface SourceOptions {
  runId: string
  threadId: string
  now: () => number
  onUnknown: (type: string) => void
}

export function createSource(name: SourceName, options: SourceOptions): Source {
  const { runId, threadId, now, onUnknown } = options
  if (name === 'v2') return new V2Source()
  const translation = TRANSLATIONS[name]({
    runId,
    turnId: runId,
    threadId,
    providerId: name,
    modelId: 'unknown',
    now,
    onUnknown,
  })
  return new VendorReader(translation, new EventStamp({ now }))
}
