import type { Usage } from '@turnstream/core/internal/protocol/stream-event'

/** What is known of a turn when it starts. */
export interface TurnFacts {
  readonly turnId: string
  readonly threadId: string
  readonly tenant: string
  readonly provider: string
  readonly model: string
}

/** How a turn ended. `lost`: this process no longer owns it. `deleted`: while it ran. */
export interface TurnOutcome {
  readonly status: 'completed' | 'failed' | 'aborted' | 'lost' | 'deleted'
  /** Error code of a failed turn; may be a provider's. */
  readonly code?: string
  /** Since the submit. */
  readonly durationMs: number
  readonly usage?: Usage
  /** Of a cancelled turn: time since the request, or since it was noticed if another process received it. */
  readonly cancelMs?: number
}

/** Plain numbers, so that counting costs no more than an addition. */
export interface TurnCounts {
  /** Durable events. */
  events: number
  /** Durable snapshots. */
  snapshots: number
}

/** How a server tool was run. `stopped`: the turn ended first. */
export interface ToolOutcome {
  readonly tool: string
  readonly status: 'succeeded' | 'failed' | 'stopped'
  /** Without the wait for an approval. */
  readonly durationMs: number
}

/** Callbacks for the progress of turns. They are called often; exceptions are reported and ignored. */
export interface TurnObserver {
  readonly counts: TurnCounts
  started(turn: TurnFacts): void
  /** The first content arrived. */
  answered(turn: TurnFacts, waitedMs: number): void
  /** A call to the provider is retried. */
  retried(turn: TurnFacts): void
  /** The provider sent an event of an unknown type, which is ignored. Once per type and call. */
  unknownEvent(turn: TurnFacts, type: string): void
  ended(turn: TurnFacts, outcome: TurnOutcome): void
  /** A server tool was run. */
  toolEnded?(turn: TurnFacts, outcome: ToolOutcome): void
  /** How long one append took. One in `TIMED_EVERY` is measured. */
  appended(tookMs: number): void
  /** A turn of a dead process was ended. */
  orphanEnded(): void
}

/** A power of two. Reading the clock twice per append costs too much: an append may hold a single delta. */
export const TIMED_EVERY = 16

const CALLBACKS = [
  'started',
  'answered',
  'retried',
  'unknownEvent',
  'ended',
  'toolEnded',
  'appended',
  'orphanEnded',
] as const

/** Wraps an observer, or none. Its exceptions go to `onError` and never into a turn. */
export function guardObserver(
  observer: TurnObserver | undefined,
  onError: (error: unknown) => void,
): TurnObserver {
  const callbacks = CALLBACKS.map((name) => {
    const notify = observer?.[name]?.bind(observer) as ((...args: unknown[]) => void) | undefined
    return [name, guardCallback(notify, onError)]
  })
  const counts = observer?.counts ?? { events: 0, snapshots: 0 }
  return { counts, ...Object.fromEntries(callbacks) } as TurnObserver
}

/** Wraps a callback, or none. By default its exceptions are ignored: those of `onError` cannot be reported. */
export function guardCallback<Args extends unknown[]>(
  callback: ((...args: Args) => void) | undefined,
  onError: (error: unknown) => void = () => {},
): (...args: Args) => void {
  return (...args) => {
    try {
      callback?.(...args)
    } catch (error) {
      onError(error)
    }
  }
}
