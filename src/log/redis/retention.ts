import { RECORDS_OUTLIVE_LOGS } from '../rules.ts'

/** The keys of a thread and of its turns get their times one after the other. */
const THREAD_MARGIN_MS = 60_000

/** How long things are kept. */
export class Retention {
  readonly logMs: number
  readonly recordMs: number
  /** A thread with turns outlives their records; one without goes with `logMs`. */
  readonly threadMs: number
  /** Longer than any thread is there. */
  readonly indexMs: number

  constructor(retentionMs: number) {
    this.logMs = retentionMs
    this.recordMs = retentionMs * RECORDS_OUTLIVE_LOGS
    this.threadMs = this.recordMs + Math.min(retentionMs, THREAD_MARGIN_MS)
    this.indexMs = this.recordMs * 4
  }

  /** An open turn that nobody claims goes when its record would go, had it ended with its lease. */
  openMs(leaseMs: number): number {
    return leaseMs + this.recordMs
  }
}
