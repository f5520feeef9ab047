// Apart from the classes, whose types need those of LMDB: users of the package get only these.
import type { Clock } from '../../async/clock.ts'
import type { TurnLog } from '../turn-log.ts'
import { EmbeddedLog } from './embedded-log.ts'
import { EmbeddedStore } from './embedded-store.ts'

/**
 * - `commit`: a record is on the disk before it is acknowledged, and survives a power cut.
 * - `system`: a record is with the operating system before it is acknowledged. It survives the death of
 *   the process in whatever way, but when the machine dies, the store may be damaged as a whole.
 */
export type SyncPolicy = 'commit' | 'system'

export interface EmbeddedLogOptions {
  /** Where everything is stored; created if it is missing. One process at a time. */
  readonly directory: string
  /** How long the logs of a turn are stored after its end: seven days by default. */
  readonly retentionMs?: number
  /** What an acknowledged record survives: `commit`, a power cut (the default); `system`, `kill -9`. */
  readonly sync?: SyncPolicy
  /** How far apart commits are under load, in real time: 30 ms by default. */
  readonly commitIntervalMs?: number
  /** How often to sweep expired turns and threads: every minute by default. */
  readonly sweepMs?: number
  /** Callback for failures of the sweep: records that cannot be read, a full disk. */
  readonly onError?: (error: unknown) => void
  /** Measures leases and retention. */
  readonly clock?: Clock
}

/**
 * Opens the log in a directory. STORE_LOCKED when another process has it, STORE_READ_ONLY when it cannot be
 * written, STORE_VERSION when a newer version wrote it. The leases of open turns count as run out: their owners are
 * gone.
 */
export async function openEmbeddedLog(options: EmbeddedLogOptions): Promise<TurnLog> {
  return new EmbeddedLog(await EmbeddedStore.open(options))
}
