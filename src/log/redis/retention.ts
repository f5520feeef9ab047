import { RECORDS_OUTLIVE_LOGS } from '../retention.ts'

/** How long things are kept. */
export class Retention {
  readonly logMs: number
  readonly recordMs: number
  /** A thread outlives the records of its turns. */
  readonly threadMs: number

  constructor(retentionMs: number) {
    this.logMs = retentionMs
    this.recordMs = retentionMs * RECORDS_OUTLIVE_LOGS
    this.threadMs = this.recordMs * 2
  }

  /** An open turn that nobody claims goes when its record would go, had it ended with its lease. */
  openMs(leaseMs: number): number {
    return leaseMs + this.recordMs
  }
}
