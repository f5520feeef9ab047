import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { TurnstreamError } from '../../protocol/errors.ts'

/** LMDB copies the pages that it changes, and text may take three bytes for a character. */
const COPIES = 4

/** What a commit needs besides: the pages on the way to those that it changes, and the list of free ones. */
const COMMIT_BYTES = 256 * 1024

/** Kept free for whatever else writes to the disk at the same moment. */
const RESERVE_BYTES = 1024 * 1024

/** How long a measurement is believed. */
const BELIEVED_MS = 1000

/**
 * Refuses a commit for which the disk may have no room. LMDB could be left to find out: nothing would be
 * lost, but lmdb 3.5.6 damages the memory of the process when a write fails for want of room, which then
 * dies somewhat later.
 */
export class DiskRoom {
  readonly #directory: string
  #left = 0
  #measuredAt = Number.NEGATIVE_INFINITY

  constructor(file: string) {
    this.#directory = dirname(file)
  }

  /** Takes the room for storing so much. STORE_FULL if there is not enough. */
  async take(bytes: number): Promise<void> {
    const needed = bytes * COPIES + COMMIT_BYTES
    const isOld = performance.now() - this.#measuredAt > BELIEVED_MS
    if (isOld || this.#left < needed) await this.#measure()
    if (this.#left < needed) {
      const detail = `${this.#directory}: a commit may need ${needed} bytes more than are free`
      throw new TurnstreamError('STORE_FULL', detail)
    }
    this.#left -= needed
  }

  async #measure(): Promise<void> {
    const { bavail, bsize } = await statfs(this.#directory)
    this.#left = bavail * bsize - RESERVE_BYTES
    this.#measuredAt = performance.now()
  }
}
