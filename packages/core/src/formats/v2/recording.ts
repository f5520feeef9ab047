import { OpenItems } from '../../items/open-items.ts'
import { type Decoded, parseJsonSafe } from '../../protocol/json.ts'
import type { StreamEvent } from '../../protocol/stream-event.ts'
import {
  isStreamEvent,
  normalizeEvent,
  streamEventFault,
} from '../../protocol/stream-event-guard.ts'
import type { ProviderRequest, RunContext } from '../provider-request.ts'

/** A recorded turn: a file of StreamEvents, one per line. Timestamps set the pace. */
export type Recording = readonly StreamEvent[]
/** Recorded turns by name. A function writes one for a call. */
export type Recordings = Readonly<
  Record<string, Recording | ((request: ProviderRequest, run: RunContext) => Recording)>
>

/** Skips events of unknown types; other faults are reported with their line. */
export function decodeRecording(text: string): Decoded<Recording> {
  const events: StreamEvent[] = []
  const items = new OpenItems()
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue
    const event = normalizeEvent(parseJsonSafe(line), { started: items.soFar })
    const fault = streamEventFault(event)
    if (fault !== undefined) return { ok: false, reason: `line ${index + 1}: ${fault}` }
    if (!isStreamEvent(event)) continue
    items.apply(event.payload)
    events.push(event)
  }
  if (events.length === 0) return { ok: false, reason: 'it contains no events' }
  return { ok: true, value: events }
}
