import { join } from 'node:path'
import { type Clock, systemClock } from '../../async/clock.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import type { TurnLog } from '../turn-log.ts'
import { AllTurns } from './all-turns.ts'
import { Chunks } from './chunks.ts'
import { removeCopy } from './data-copy.ts'
import { checkWritable, makeDirectory } from './directory.ts'
import { DirectoryGuard } from './directory-guard.ts'
import { EmbeddedLog } from './embedded-log.ts'
import { EmbeddedStore } from './embedded-store.ts'
import { DATA_FILE, Environment } from './environment.ts'
import { storeError } from './failures.ts'
import { GroupCommit } from './group-commit.ts'
import { Journal } from './journal.ts'
import { migrate } from './migrate.ts'
import { recover } from './recovery.ts'
import { StoreFiles } from './store-files.ts'
import type { SyncPolicy } from './sync-policy.ts'

export interface EmbeddedLogOptions {
  /** Where everything is kept; made if it is not there. One process at a time. */
  readonly directory: string
  /** How long the logs of a turn are kept after its end: seven days unless given. */
  readonly retentionMs?: number
  /** What an acknowledged record survives: `commit`, a power cut (the default); `system`, `kill -9`. */
  readonly sync?: SyncPolicy
  /** How far apart commits are under load, in real time: 30 ms unless given. */
  readonly commitIntervalMs?: number
  /** How often to sweep expired turns and threads: every minute unless given. */
  readonly sweepMs?: number
  /** Callback for failures of the sweep: records that cannot be read, a full disk. */
  readonly onError?: (error: unknown) => void
  /** What leases and retention are told by. */
  readonly clock?: Clock
}

const WEEK_MS = 7 * 24 * 60 * 60 * 1000
const MINUTE_MS = 60 * 1000
// A commit costs half a millisecond of CPU, and nobody who reads along notices twenty.
const COMMIT_INTERVAL_MS = 30

/**
 * Opens the log in a directory. STORE_LOCKED when another process has it, STORE_READ_ONLY when it cannot be
 * written, STORE_VERSION when a newer version wrote it. The leases of open turns count as run out: who held
 * them is gone.
 */
export async function openEmbeddedLog(options: EmbeddedLogOptions): Promise<TurnLog> {
  const { directory, sync = 'commit', commitIntervalMs = COMMIT_INTERVAL_MS } = options
  const { retentionMs = WEEK_MS, sweepMs = MINUTE_MS, clock = systemClock } = options
  const { onError = () => {} } = options
  if (directory === '') throw new TurnstreamError('OPTION_INVALID', 'directory is empty')
  await makeDirectory(directory)
  await checkWritable(directory)
  const guard = await DirectoryGuard.take(directory)
  try {
    await removeCopy(directory)
    await migrate(directory)
    const env = await Environment.open(join(directory, DATA_FILE), sync)
    const chunks = new Chunks(env.tables.chunks)
    const journal = new Journal(env.tables.journal)
    const files = new StoreFiles(directory)
    const commits = new GroupCommit({ env, files, journal, chunks, intervalMs: commitIntervalMs })
    const turns = new AllTurns(env, commits)
    await recover({ env, journal, chunks, turns })
    const release = () => guard.release()
    const parts = {
      env,
      files,
      chunks,
      journal,
      commits,
      turns,
      clock,
      retentionMs,
      sweepMs,
      onError,
      release,
    }
    return new EmbeddedLog(new EmbeddedStore(parts))
  } catch (error) {
    await guard.release()
    throw await storeError(error, directory)
  }
}
