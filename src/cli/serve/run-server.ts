import type { TurnLog } from '../../log/turn-log.ts'
import { hasCode, TurnstreamError } from '../../protocol/errors.ts'
import { createGateway, type Gateway, type GatewayOptions } from '../../server/gateway.ts'
import { type Listening, listen } from '../../server/listen.ts'
import { Providers } from '../../turns/providers.ts'
import { EXIT } from '../command.ts'
import type { Terminal } from '../terminal.ts'
import { formatDuration } from './duration.ts'
import { greeting, greetingJson } from './greeting.ts'
import type { Journal } from './journal.ts'
import type { ServeOptions } from './options.ts'
import { StartError } from './start-error.ts'
import { openStore, storeFault } from './store.ts'

export interface Surroundings {
  readonly journal: Journal
  readonly terminal: Terminal
}

/** Opens store and port, and resolves when both are closed again. StartError when there is no way to. */
export async function runServer(options: ServeOptions, around: Surroundings): Promise<void> {
  const log = await open(options, around)
  try {
    const providers = new Providers(options.providers.configured)
    const gateway = createGateway(gatewayOptions(options, { ...around, log, providers }))
    const listening = await listenOn(gateway, options)
    const { url } = listening
    // Whoever reads the greeting may answer with a signal.
    const asked = firstSignal(around)
    await around.terminal.write(
      options.json ? greetingJson(url, providers.models, options) : greeting(url, options),
    )
    await asked
    around.journal.info(farewell(gateway.turns.running, options))
    await listening.close()
  } finally {
    await log.close()
  }
}

async function open(options: ServeOptions, around: Surroundings): Promise<TurnLog> {
  const { store, settings } = options
  let isOpen = false
  try {
    const log = await openStore(store, {
      clock: around.terminal.clock,
      // Before that, what goes wrong is the reason why it does not open.
      onError: (error) => isOpen && around.journal.error(error),
      retentionMs: settings.retention,
    })
    isOpen = true
    return log
  } catch (error) {
    if (!(error instanceof TurnstreamError)) throw error
    throw new StartError(storeFault(store, error), { cause: error })
  }
}

interface Parts extends Surroundings {
  readonly log: TurnLog
  readonly providers: Providers
}

function gatewayOptions(options: ServeOptions, parts: Parts): GatewayOptions {
  const { settings, instance } = options
  const { log, providers, journal, terminal } = parts
  return {
    log,
    providers,
    owner: instance,
    clock: terminal.clock,
    caps: {
      maxTextChars: settings.maxTurnChars,
      maxItems: settings.maxTurnItems,
      maxDurationMs: settings.maxTurnTime,
      maxRounds: settings.maxTurnRounds,
    },
    leaseMs: settings.lease,
    heartbeatMs: settings.heartbeat,
    maxBodyBytes: settings.maxBodyBytes,
    shutdownGraceMs: settings.shutdownGrace,
    onError: (error, about) => journal.error(error, about),
  }
}

async function listenOn(gateway: Gateway, { settings }: ServeOptions): Promise<Listening> {
  const { host, port } = settings
  try {
    return await listen(gateway, { host, port })
  } catch (error) {
    if (!hasCode(error, 'OPTION_INVALID')) throw error
    throw new StartError(error.message, { cause: error })
  }
}

// Ctrl-C reaches every process of the terminal, and npm passes it on to its child once more.
const SAME_SIGNAL_MS = 250

/** Resolves with the first signal; a second one ends the process at once. */
function firstSignal({ journal, terminal }: Surroundings): Promise<void> {
  const { clock } = terminal
  let askedAt: number | undefined
  return new Promise((resolve) => {
    terminal.onSignal(() => {
      askedAt ??= clock.now()
      resolve()
      if (clock.now() - askedAt < SAME_SIGNAL_MS) return
      journal.info('ended at once, as asked')
      terminal.exit(EXIT.failed)
    })
  })
}

function farewell(running: number, { settings }: ServeOptions): string {
  if (running === 0) return 'shutting down'
  const turns = running === 1 ? 'a turn' : `${running} turns`
  return `shutting down: waiting up to ${formatDuration(settings.shutdownGrace)} for ${turns}; a second signal ends at once`
}
