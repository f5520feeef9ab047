import type { WriteState } from '../rules.ts'
import type { LogName } from '../turn-log.ts'
import type { TurnFacts } from './stored-turn.ts'

/** How many records each log has. */
export interface Heads {
  events: number
  processed: number
}

/** A turn at one time. */
export interface Version extends Readonly<Heads> {
  readonly facts: TurnFacts
  /** What it says of heads is out of date: those of the version count. */
  readonly state: WriteState
}

export function headsOf({ logs }: WriteState): Heads {
  return { events: logs.events.head, processed: logs.processed.head }
}

export function withHeads(state: WriteState, { events, processed }: Readonly<Heads>): WriteState {
  const { logs } = state
  return {
    ...state,
    logs: {
      events: { ...logs.events, head: events },
      processed: { ...logs.processed, head: processed },
    },
  }
}

/** Whether a turn has to be stored anew: the heads of its open logs are in their records. */
export function isChanged(before: Version, after: Version): boolean {
  const { events, processed } = before.state.logs
  const { logs } = after.state
  return (
    before.facts !== after.facts ||
    before.state.epoch !== after.state.epoch ||
    logs.events.sealed !== events.sealed ||
    logs.processed.sealed !== processed.sealed
  )
}

/** Whether there is something new for the readers of a log. */
export function hasNews(log: LogName, before: Version | undefined, after: Version): boolean {
  if (before === undefined || before[log] !== after[log]) return true
  return before.state.logs[log].sealed !== after.state.logs[log].sealed
}
