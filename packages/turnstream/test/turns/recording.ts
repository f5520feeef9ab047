/** Turns as their owners leave them behind: cut after any record of either log. */

import { fakeClock } from '../../../conformance/src/index.ts'
import { appendTo } from '../../../conformance/src/turn-log/append.ts'
import {
  type ProcessorOptions,
  type StreamEvent,
  type StreamOutput,
  StreamProcessor,
} from '../../../core/src/index.ts'
import type { Lease, TurnLog } from '../../../core/src/log/turn-log.ts'
import { THREAD_ID, TURN_ID } from '../../../core/test/processor/events.ts'

export interface Recording {
  /** The events up to the terminal one, as `events` holds them. */
  readonly events: readonly string[]
  /** What the processor made of them, each with the number of events it had been given by then. */
  readonly outputs: readonly { readonly data: string; readonly after: number }[]
}

const TERMINALS = new Set(['response_done', 'response_error', 'turn_aborted_by_user'])

/** Lets a processor watch the turn; `pauses` are the milliseconds before each event. */
export async function recordTurn(
  events: readonly StreamEvent[],
  { pauses = [], ...options }: Partial<ProcessorOptions> & { pauses?: readonly number[] } = {},
): Promise<Recording> {
  const clock = fakeClock()
  const outputs: { data: string; after: number }[] = []
  let given = 0
  const processor = new StreamProcessor({
    turnId: TURN_ID,
    threadId: THREAD_ID,
    clock,
    onEmit: ({ payload }) => {
      outputs.push({ data: payload, after: given })
    },
    ...options,
  })
  const end = events.findIndex(({ type }) => TERMINALS.has(type)) + 1
  const kept = events.slice(0, end === 0 ? undefined : end)
  for (const [index, event] of kept.entries()) {
    const pause = pauses[index % pauses.length] ?? 0
    if (pause > 0) await clock.advance(pause)
    given += 1
    await processor.processEvent(event)
  }
  return { events: kept.map((event) => JSON.stringify(event)), outputs }
}

/** How far an owner came. */
export interface Cut {
  readonly events: number
  readonly outputs: number
}

/** Every state in which an owner may have left the turn: `processed` is never ahead of `events`. */
export function cutsOf({ events, outputs }: Recording): Cut[] {
  return Array.from({ length: events.length + 1 }, (_, count) => {
    const derived = outputs.filter(({ after }) => after <= count).length
    return Array.from({ length: derived + 1 }, (_, lag) => ({ events: count, outputs: lag }))
  })
    .flat()
    .filter((cut) => cut.outputs < outputs.length)
}

export async function writeCut(
  log: TurnLog,
  { events, outputs }: Recording,
  cut: Cut,
  leaseMs: number,
): Promise<Lease> {
  const turn = { turnId: TURN_ID, threadId: THREAD_ID, owner: 'the first owner' }
  const lease = await log.create(turn, leaseMs)
  const texts = {
    events: events.slice(0, cut.events),
    processed: outputs.slice(0, cut.outputs).map(({ data }) => data),
  }
  for (const name of ['events', 'processed'] as const) {
    const whole = name === 'events' ? events.length : outputs.length
    const records = texts[name].map((data, index) => ({ seq: index + 1, data }))
    if (records.length > 0) {
      await appendTo(log, lease, name, records, { seal: records.length === whole })
    }
  }
  return lease
}

/**
 * The last word about every item and about the turn, from a processor that shows everything at once, so
 * that it tells of every item that any processor may have shown.
 */
export async function lastOutputs(events: readonly string[]): Promise<Map<string, StreamOutput>> {
  const last = new Map<string, StreamOutput>()
  const processor = new StreamProcessor({
    turnId: TURN_ID,
    threadId: THREAD_ID,
    clock: fakeClock(),
    onEmit: (_message, output) => {
      last.set('itemId' in output ? output.itemId : output.type, output)
    },
  })
  for (const text of events) {
    await processor.processEvent(JSON.parse(text) as StreamEvent)
    await processor.flush()
  }
  return last
}
