import type { Frame } from './frame.ts'

/**
 * How much may wait to be sent to a reader. A reader that is further behind gets nothing new until it has
 * taken that: what it misses meanwhile waits in the log.
 */
export const MAX_WAITING_BYTES = 64 * 1024

/** The way to one reader. */
export interface SseSink {
  /** False when enough is waiting: then `drained` says when to go on. */
  write(frame: Frame): boolean
  /** Resolves when everything was taken, or when the reader has left; at once if that has happened already. */
  drained(): Promise<void>
  /** How much was written and not taken. */
  readonly waitingBytes: number
  /** The answer is over. */
  end(): void
  /** The answer stops in the middle, and the reader shall notice it. */
  cut(): void
}
