import * as z from 'zod'
import { applyAppend } from '../../dialects/xapi/append.ts'
import { decodeText } from '../../protocol/decode.ts'
import { SSE_EVENTS } from '../../protocol/names.ts'
import {
  type ItemSnapshot,
  type StreamOutput,
  streamOutputSchema,
} from '../../protocol/stream-output.ts'
import type { SseEvent } from '../../sse/decode.ts'
import type { EventFeed } from './event-feed.ts'

const appendSchema = z.object({
  itemId: z.string(),
  at: z.number(),
  text: z.string(),
  length: z.number(),
  status: z.enum(['create', 'update', 'complete', 'error']),
})

/**
 * The outputs of a turn, each of them complete, to the last, with the offset to resume after it. What a new
 * connection repeats is left out, and so are types that this version does not know.
 */
export async function* turnOutputs(feed: EventFeed) {
  const items = new Map<string, ItemSnapshot>()
  const seen = new Map<string, string>()
  for await (const frame of feed) {
    const output = outputOf(frame, items)
    if (output === 'out of step') feed.restart()
    if (output === undefined || output === 'out of step') continue
    const key = 'itemId' in output ? output.itemId : output.type
    if ('itemId' in output) items.set(key, output)
    const text = JSON.stringify(output)
    if (seen.get(key) === text) continue
    seen.set(key, text)
    yield { output, offset: frame.id }
    if (outcomeOf(output) !== undefined) return
  }
}

function outputOf(
  frame: SseEvent,
  items: ReadonlyMap<string, ItemSnapshot>,
): StreamOutput | 'out of step' | undefined {
  if (frame.event === '') {
    const output = decodeText(streamOutputSchema, frame.data)
    return output.ok ? output.value : undefined
  }
  if (frame.event !== SSE_EVENTS.append) return undefined
  const append = decodeText(appendSchema, frame.data)
  const item = append.ok ? items.get(append.value.itemId) : undefined
  if (!append.ok || item === undefined) return 'out of step'
  return applyAppend(item, append.value) ?? 'out of step'
}

export type TurnOutcome = 'complete' | 'error' | 'aborted'

/** How the turn ended, if this is its end. */
export function outcomeOf(output: StreamOutput): TurnOutcome | undefined {
  if (output.type === 'turn_error') return 'error'
  return output.type === 'turn_complete' ? output.status : undefined
}
