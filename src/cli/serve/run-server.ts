import { resolve } from 'node:path'
import type { TurnLog } from '../../log/turn-log.ts'
import { hasCode, TurnstreamError } from '../../protocol/errors.ts'
import { createGateway, type Gateway, type GatewayOptions } from '../../server/gateway.ts'
import { type Crowd, type Listening, listen } from '../../server/listen.ts'
import { Providers } from '../../turns/providers.ts'
import { EXIT, type ExitCode } from '../command.ts'
import type { Terminal } from '../terminal.ts'
import { watchClock } from './clock-watch.ts'
import { formatDuration } from './duration.ts'
import { greeting, greetingJson } from './greeting.ts'
import type { Journal } from './journal.ts'
import { keyLimitsOf, portLimitsOf } from './limits.ts'
import { isLoopback } from './loopback.ts'
import type { ServeOptions } from './options.ts'
import { openKeys, type ServerKeys } from './server-keys.ts'
import { StartError } from './start-error.ts'
import { openStore, storeFault } from './store.ts'
import { trafficOf } from './traffic.ts'
import { webAccessOf } from './web-access.ts'

export interface Surroundings {
  readonly journal: Journal
  readonly terminal: Terminal
}

/**
 * Opens store and port, and resolves when both are closed again; with `EXIT.failed` if turns are left without an end.
 * StartError when there is no way to.
 */
export async function runServer(options: ServeOptions, around: Surroundings): Promise<ExitCode> {
  const keys = keysOf(options, around)
  const log = await open(options, around)
  const stopWatch = watchClock(around)
  let stopEnding: (() => void) | undefined
  try {
    const providers = new Providers(options.providers.configured)
    const gateway = createGateway(gatewayOptions(options, { ...around, log, providers, keys }))
    const listening = await listenOn(gateway, options, around)
    const { url } = listening
    // Whoever reads the greeting may answer with a signal.
    const asked = firstSignal(around)
    for (const warning of options.warnings) around.journal.warn(warning)
    await around.terminal.write(
      options.json
        ? greetingJson(url, providers.models, options, keys)
        : greeting(url, options, keys),
    )
    await asked
    around.journal.info(farewell(gateway.turns.running, options))
    stopEnding = endInTime(options, around)
    await listening.close()
    const { running } = gateway.turns
    if (running === 0) return EXIT.done
    around.journal.warn(
      `the store did not take the end of ${countTurns(running)}: the next server on it ends what is left`,
    )
    return EXIT.failed
  } finally {
    stopWatch()
    await log.close()
    stopEnding?.()
  }
}

/** SIGHUP has them read again, from now on and for as long as the process lives. */
function keysOf(
  options: ServeOptions,
  { journal, terminal }: Surroundings,
): ServerKeys | undefined {
  const { store, settings } = options
  if (settings.keysFile === undefined) return undefined
  const keys = openKeys(resolve(terminal.cwd, settings.keysFile), journal)
  terminal.onHangup(() => keys.readAgain())
  if (store.kind === 'redis' && settings.streamTokenSecret === undefined) {
    journal.warn(
      'stream tokens of this instance are not valid at others on the same Redis: ' +
        'give all of them the same TURNSTREAM_STREAM_TOKEN_SECRET',
    )
  }
  return keys
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
      silentAfterMs: settings.storeTimeout,
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
  readonly keys: ServerKeys | undefined
}

function gatewayOptions(options: ServeOptions, parts: Parts): GatewayOptions {
  const { settings, instance } = options
  const { log, providers, journal, terminal, keys } = parts
  const { streamTokenSecret } = settings
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
      maxHistoryBytes: settings.maxHistoryBytes,
      maxHistoryTokens: settings.maxHistoryTokens,
    },
    leaseMs: settings.lease,
    heartbeatMs: settings.heartbeat,
    maxBodyBytes: settings.maxBodyBytes,
    limits: keyLimitsOf(settings),
    ...webAccessOf(settings),
    ...trafficOf(settings, journal),
    openMetrics: isLoopback(settings.host),
    shutdownGraceMs: settings.shutdownGrace,
    ...(keys !== undefined && { keys: keys.ring }),
    ...(streamTokenSecret !== undefined && { streamTokenSecret }),
    onError: (error, about) => journal.error(error, about),
  }
}

async function listenOn(
  gateway: Gateway,
  { settings }: ServeOptions,
  { journal }: Surroundings,
): Promise<Listening> {
  const { host, port } = settings
  const onCrowded = ({ refused, maxConnections }: Crowd) => {
    const cause =
      maxConnections < settings.maxConnections
        ? 'the limit of open files allows no more; raise it with ulimit -n'
        : 'raise --max-connections to allow more'
    journal.warn(`refused ${refused} connections: ${maxConnections} are open, and ${cause}`)
  }
  try {
    return await listen(gateway, { host, port, onCrowded, ...portLimitsOf(settings) })
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

// What is left after the grace is written, sent and closed within this time, or not at all.
const END_MS = 5000

/** Ends the process when the grace is over, whatever the store and the clients do. */
function endInTime({ settings }: ServeOptions, { journal, terminal }: Surroundings): () => void {
  return terminal.clock.after(settings.shutdownGrace + END_MS, () => {
    const grace = formatDuration(settings.shutdownGrace)
    journal.warn(`ended after the grace of ${grace}: the store did not close`)
    terminal.exit(EXIT.failed)
  })
}

function countTurns(count: number): string {
  return count === 1 ? 'a turn' : `${count} turns`
}

function farewell(running: number, { settings }: ServeOptions): string {
  if (running === 0) return 'shutting down'
  return `shutting down: waiting up to ${formatDuration(settings.shutdownGrace)} for ${countTurns(running)}; a second signal ends at once`
}
