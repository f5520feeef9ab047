import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DATA_FILE } from '../../log/embedded/data-file.ts'
import type { TurnLog } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { type ExitCode, reportFailure, UsageError } from '../command.ts'
import { CONFIG_OPTION, readConfiguration } from '../serve/configuration.ts'
import { openStore, storeFault } from '../serve/store.ts'
import type { Terminal } from '../terminal.ts'

export const STORE_OPTIONS = {
  store: {
    value: 'where',
    about: 'a directory, redis://… or rediss://… (that of "turnstream serve")',
  },
  config: CONFIG_OPTION,
} as const

interface StoreValues {
  readonly store?: string | undefined
  readonly config?: string | undefined
  readonly json: boolean
  readonly mustExist: boolean
}

/** Nothing expires while turns are copied. */
const NEVER_MS = 1e15

/** Opens the store that a server would use here, and closes it. Says why it cannot be used. */
export async function withStore(
  { store: flag, config, json, mustExist }: StoreValues,
  terminal: Terminal,
  use: (log: TurnLog) => Promise<ExitCode>,
): Promise<ExitCode> {
  const { env, cwd, clock } = terminal
  const sources = { flags: { store: flag }, env, cwd, configFile: config }
  const { settings, store } = readConfiguration(sources)
  if (store.kind === 'memory') throw new UsageError('--store takes a directory or redis://…')
  const isEmbedded = store.kind === 'embedded'
  try {
    if (isEmbedded && mustExist && !existsSync(join(store.directory, DATA_FILE))) {
      throw new TurnstreamError('STORE_FAILED', `${store.directory} has no store`)
    }
    const log = await openStore(store, {
      // In Redis every turn carries its own.
      retentionMs: isEmbedded ? NEVER_MS : settings.retention,
      silentAfterMs: settings.storeTimeout,
      clock,
      onError: () => {},
    })
    try {
      return await use(log)
    } finally {
      await log.close()
    }
  } catch (error) {
    if (!(error instanceof TurnstreamError)) throw error
    return reportFailure({ code: error.code, message: storeFault(store, error) }, terminal, json)
  }
}
