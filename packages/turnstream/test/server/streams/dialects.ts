import type { LogName } from '../../../../core/src/log/turn-log.ts'
import { eventsOf, outputsOf } from './turns.ts'
import { EventView, OutputView, type View } from './views.ts'

/** One way to read a turn over HTTP. */
export interface Dialect {
  readonly name: string
  readonly log: LogName
  readonly pathOf: (turnId: string) => string
  readonly view: (turnId: string) => View
  /** What a reader has seen of the turn that was there to its end. */
  readonly expected: (turnId: string) => unknown
}

function newestOutputs(turnId: string): unknown[] {
  const newest = new Map(
    outputsOf(turnId).map((output) => ['itemId' in output ? output.itemId : output.type, output]),
  )
  return [...newest.values()]
}

export const DIALECTS: readonly Dialect[] = [
  {
    name: 'v2',
    log: 'events',
    pathOf: (turnId) => `/api/v2/stream/${turnId}`,
    view: () => new EventView(),
    expected: eventsOf,
  },
  ...['snapshot', 'append'].map((encoding) => ({
    name: `xapi ${encoding}`,
    log: 'processed' as const,
    pathOf: (turnId: string) => `/xapi/turns/${turnId}/stream?encoding=${encoding}`,
    view: (turnId: string) => new OutputView(outputsOf(turnId)),
    expected: newestOutputs,
  })),
]
