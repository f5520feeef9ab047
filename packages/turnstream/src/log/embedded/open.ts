// Separate from the classes, whose types need LMDB's: the published types include only these.
import type { Clock } from '@turnstream/core/internal/async/clock'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import type { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { DEFAULT_TENANT } from '@turnstream/core/internal/protocol/names'
import { EmbeddedStore } from './embedded-store.ts'

/**
 * Durability of an acknowledged record. `commit`: on disk; survives a power failure. `system`: handed to the operating
 * system; survives the death of the process, but a machine crash may damage the store.
 */
export type SyncPolicy = 'commit' | 'system'

export interface EmbeddedLogOptions {
  /** Directory of the store, created if missing. One process at a time. */
  readonly directory: string
  /** How long to store the logs of a turn after its end. Seven days by default. */
  readonly retentionMs?: number
  /** Durability of acknowledged records. `commit` by default. */
  readonly sync?: SyncPolicy
  /** Maximum interval between commits under load, in real time. 30 ms by default. */
  readonly commitIntervalMs?: number
  /** How often to sweep expired turns and threads. Every minute by default. */
  readonly sweepMs?: number
  /** Callback for sweep failures, such as unreadable records or a full disk. */
  readonly onError?: (error: unknown) => void
  readonly clock?: Clock
}

/**
 * Opens the log in a directory. STORE_LOCKED if another process has it, STORE_READ_ONLY if it is not writable,
 * STORE_VERSION if a newer version wrote it. Leases of open turns count as expired: their owners have died.
 */
export async function openEmbeddedLog(options: EmbeddedLogOptions): Promise<TurnLog> {
  return (await EmbeddedStore.open(options)).logOf(DEFAULT_TENANT)
}

/** Opens a store also when its lists are damaged, to save what is left. LMDB may crash while it is read. */
export async function openDamagedLog(
  options: EmbeddedLogOptions,
  onDamage: (error: TurnstreamError) => void,
): Promise<TurnLog> {
  return (await EmbeddedStore.open(options, onDamage)).logOf(DEFAULT_TENANT)
}
