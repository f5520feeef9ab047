import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DATA_FILE } from '../../log/embedded/environment.ts'
import type { TurnLog } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { EXIT, type ExitCode, UsageError } from '../command.ts'
import { readConfiguration } from '../serve/configuration.ts'
import { openStore, storeFault, storeOf } from '../serve/store.ts'
import type { Terminal } from '../terminal.ts'

/** Of both commands. */
export const STORE_OPTIONS = {
  store: { type: 'string' },
  config: { type: 'string' },
  json: { type: 'boolean', default: false },
} as const

interface StoreValues {
  readonly store?: string | undefined
  readonly config?: string | undefined
  readonly json: boolean
}

/** Nothing expires while turns are copied. */
const NEVER_MS = 1e15

/** Opens the store that a server would use here, and closes it. Says why it cannot be used. */
export async function withStore(
  values: StoreValues,
  terminal: Terminal,
  { mustExist }: { readonly mustExist: boolean },
  use: (log: TurnLog) => Promise<ExitCode>,
): Promise<ExitCode> {
  const { env, cwd, clock } = terminal
  const { store, config } = values
  const { settings } = readConfiguration({
    flags: { ...(store !== undefined && { store }) },
    env,
    cwd,
    ...(config !== undefined && { configFile: config }),
  })
  const choice = storeOf(settings, cwd)
  if (choice.kind === 'memory') throw new UsageError('--store takes a directory or redis://…')
  try {
    if (choice.kind === 'embedded' && mustExist) checkExists(choice.directory)
    const log = await openStore(choice, {
      // In Redis every turn carries its own.
      retentionMs: choice.kind === 'embedded' ? NEVER_MS : settings.retention,
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
    const message = storeFault(choice, error)
    if (values.json) {
      await terminal.write(`${JSON.stringify({ error: { code: error.code, message } })}\n`)
    } else terminal.writeError(`turnstream: ${message}\n`)
    return EXIT.failed
  }
}

function checkExists(directory: string): void {
  if (existsSync(join(directory, DATA_FILE))) return
  throw new TurnstreamError('STORE_FAILED', `${directory} has no store`)
}
