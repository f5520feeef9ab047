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

export interface PlacedOutput {
  readonly output: StreamOutput
  /** Where a reader goes on that has seen it. */
  readonly offset: string
}

/**
 * The outputs of a turn, each of them whole, to its last. What a new connection says once more is left out;
 * what is of a type that this version does not know, too.
 */
export async function* turnOutputs(feed: EventFeed): AsyncGenerator<PlacedOutput, void> {
  const items = new Map<string, ItemSnapshot>()
  const shown = new Map<string, string>()
  for await (const frame of feed) {
    const output = outputOf(frame, items)
    if (output === 'out of step') feed.restart()
    if (output === undefined || output === 'out of step') continue
    const key = 'itemId' in output ? output.itemId : output.type
    if ('itemId' in output) items.set(key, output)
    const said = JSON.stringify(output)
    if (shown.get(key) === said) continue
    shown.set(key, said)
    yield { output, offset: frame.id }
    if (isEnding(output)) return
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

function isEnding(output: StreamOutput): boolean {
  return outcomeOf(output) !== undefined
}
