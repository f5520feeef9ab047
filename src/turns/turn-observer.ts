import type { Usage } from '../protocol/stream-event.ts'

/** What is known of a turn from its beginning. */
export interface TurnFacts {
  readonly turnId: string
  readonly threadId: string
  readonly tenant: string
  readonly provider: string
  readonly model: string
}

/** How a turn ended. `lost`: it is no longer this process's to end. `deleted`: while it ran. */
export interface TurnOutcome {
  readonly status: 'completed' | 'failed' | 'aborted' | 'lost' | 'deleted'
  /** Of a turn that failed; a provider may have codes of its own. */
  readonly code?: string
  /** Since its submit. */
  readonly durationMs: number
  readonly usage?: Usage
  /**
   * Of a turn that was stopped: since the request, or since it was noticed here if another process was asked.
   */
  readonly cancelMs?: number
}

/** Plain numbers, which cost those who count no more than an addition. */
export interface TurnCounts {
  /** Events that are durable. */
  events: number
  /** Snapshots that are durable. */
  snapshots: number
}

/** Notified of what becomes of turns. All of it is called often; what it throws is reported and ignored. */
export interface TurnObserver {
  readonly counts: TurnCounts
  started(turn: TurnFacts): void
  /** The first piece of the answer is there. */
  answered(turn: TurnFacts, waitedMs: number): void
  /** A call to the provider is made again. */
  retried(turn: TurnFacts): void
  ended(turn: TurnFacts, outcome: TurnOutcome): void
  /** How long one append took; one in `TIMED_EVERY` is measured. */
  appended(tookMs: number): void
  /** A turn of a process that died was ended. */
  orphanEnded(): void
}

/** A power of two. Two looks at the clock for each append would be too many where each holds one delta. */
export const TIMED_EVERY = 16

const CALLBACKS = ['started', 'answered', 'retried', 'ended', 'appended', 'orphanEnded'] as const

/** The same observer, or one that does nothing. What it throws goes to `onError` and never into a turn. */
export function guardObserver(
  observer: TurnObserver | undefined,
  onError: (error: unknown) => void,
): TurnObserver {
  const guarded = CALLBACKS.map((name) => {
    const notify = observer?.[name].bind(observer) as ((...args: unknown[]) => void) | undefined
    return [
      name,
      (...args: unknown[]): void => {
        try {
          notify?.(...args)
        } catch (error) {
          onError(error)
        }
      },
    ]
  })
  const counts = observer?.counts ?? { events: 0, snapshots: 0 }
  return { counts, ...Object.fromEntries(guarded) } as TurnObserver
}
