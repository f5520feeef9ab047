import type { TurnFacts, TurnObserver, TurnOutcome } from '../../turns/turn-observer.ts'

/** Told of the beginning of each turn, and with its outcome of its end. */
export type TurnListener = (turn: TurnFacts, outcome?: TurnOutcome) => void

/** The same observer, with a listener that cannot spoil anything. */
export function listenedTo(observer: TurnObserver, listener?: TurnListener): TurnObserver {
  if (listener === undefined) return observer
  function tell(turn: TurnFacts, outcome?: TurnOutcome): void {
    try {
      listener?.(turn, outcome)
    } catch {
      // There is nobody else to tell.
    }
  }
  return {
    counts: observer.counts,
    started: (turn) => {
      observer.started(turn)
      tell(turn)
    },
    answered: (turn, waitedMs) => observer.answered(turn, waitedMs),
    retried: (turn) => observer.retried(turn),
    ended: (turn, outcome) => {
      observer.ended(turn, outcome)
      tell(turn, outcome)
    },
    appended: (tookMs) => observer.appended(tookMs),
    orphanEnded: () => observer.orphanEnded(),
  }
}
