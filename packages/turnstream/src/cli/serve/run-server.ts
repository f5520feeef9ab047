import { resolve } from 'node:path'
import { failureReason } from '@turnstream/conformance/internal/endpoint/http'
import { type Clock, monotonicNow } from '@turnstream/core/internal/async/clock'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { hasCode, TurnstreamError, withoutSummary } from '@turnstream/core/internal/protocol/errors'
import { jsonLine } from '@turnstream/core/internal/protocol/json'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import { type KeyEntry, KeyRing } from '../../server/auth/key-ring.ts'
import { createGateway, type Gateway, type GatewayOptions } from '../../server/gateway.ts'
import { listen, type RefusedConnections } from '../../server/listen.ts'
import { listedModels } from '../../turns/providers.ts'
import { EXIT, type ExitCode } from '../command.ts'
import { DEFAULT_URL } from '../gateway.ts'
import { readKeysFile } from '../keys.ts'
import type { Terminal } from '../terminal.ts'
import { wrap } from '../text.ts'
import { accessLog, type Logger } from './logger.ts'
import { isLoopback, type ServeOptions, webAccess } from './serve.ts'
import { formatDuration } from './settings.ts'
import { describeStore, openStore, publicUrl, StartError, storeFault } from './store.ts'
import { type OpenTools, openTools } from './tools.ts'

interface Deps {
  readonly logger: Logger
  readonly terminal: Terminal
}

// Time to write, send and close everything after the grace period.
const END_MS = 5000

/** Runs until a signal; `EXIT.failed` if turns were left without an end. StartError when the server cannot start. */
export async function runServer(options: ServeOptions, deps: Deps): Promise<ExitCode> {
  const { logger, terminal } = deps
  const keys = loadKeys(options, deps)
  const log = await openLog(options, deps)
  const stopWatch = watchClock(logger, terminal.clock)
  let stopDeadline: (() => void) | undefined
  let tools: OpenTools | undefined
  try {
    await startRecorder(options, deps, log)
    const { secrets, settings } = options
    const { clock } = terminal
    tools = await openTools(options.tools, {
      logger,
      clock,
      secrets,
      logContent: settings.logContent,
    })
    const gateway = createGateway({
      ...gatewayOptions(options, deps),
      log,
      providers: options.models,
      tools: tools.entries,
      ...(keys !== undefined && { keys: keys.ring }),
    })
    const listening = await listenOn(gateway, options, logger)
    const { url } = listening
    // A signal may follow the banner immediately.
    const stopRequest = firstSignal(deps)
    for (const warning of options.warnings) logger.warn(warning)
    const text = options.json
      ? bannerJson(url, options, keys)
      : banner(url, options, terminal, keys)
    await terminal.write(text)
    await stopRequest
    const grace = formatDuration(settings.shutdownGraceMs)
    const wait = `: waiting up to ${grace} for ${countTurns(gateway)}; a second signal exits immediately`
    logger.info(`shutting down${gateway.turns.running === 0 ? '' : wait}`)
    // The process exits whatever the store and the clients do.
    stopDeadline = clock.after(settings.shutdownGraceMs + END_MS, () => {
      logger.warn(`exited after the grace period of ${grace}: the store did not close`)
      terminal.exit(EXIT.failed)
    })
    await listening.close()
    if (gateway.turns.running === 0) return EXIT.done
    const left = countTurns(gateway)
    logger.warn(`the store did not accept the end of ${left}: the next server on it ends them`)
    return EXIT.failed
  } finally {
    stopWatch()
    // Together: a process that ignores its end is killed after four seconds.
    const providers = options.providers.flatMap(({ provider }) => provider.stop?.() ?? [])
    await Promise.all([...providers, tools?.close(), log.close(), options.recorder?.stop()])
    stopDeadline?.()
  }
}

async function startRecorder({ recorder }: ServeOptions, { logger, terminal }: Deps, log: TurnLog) {
  if (recorder === undefined) return
  const onError = (error: unknown): void =>
    logger.warn(`a response was not recorded: ${failureReason(error)}`)
  await recorder.start({ log, clock: terminal.clock, onError }).catch((error: unknown) => {
    throw new StartError(`cannot record: ${failureReason(error)}`, { cause: error })
  })
  logger.warn(`recording prompts and answers in ${recorder.directory}`)
}

function countTurns({ turns: { running } }: Gateway): string {
  return running === 1 ? 'a turn' : `${running} turns`
}

type ServerKeys = NonNullable<ReturnType<typeof loadKeys>>

/** Loads the keys, if the server needs any, and reloads them on SIGHUP. StartError when there are none. */
function loadKeys({ store, settings }: ServeOptions, { logger, terminal }: Deps) {
  if (settings.keysFile === undefined) return undefined
  const file = resolve(terminal.cwd, settings.keysFile)
  let keys: KeyEntry[]
  try {
    keys = readKeysFile(file)
  } catch (error) {
    if (!hasCode(error, 'KEYS_FILE_INVALID')) throw error
    throw new StartError(error.message, { cause: error })
  }
  const advice = `create one with "turnstream keys add <tenant> --file ${file}"`
  if (keys.length === 0) throw new StartError(`no keys in ${file}: ${advice}`)
  const ring = new KeyRing(keys)
  logger.info(`${describeKeys(keys)} in force`)
  terminal.onHangup(() => reloadKeys({ ring, file }, logger))
  if (store.kind === 'redis' && settings.streamTokenSecret === undefined) {
    logger.warn(
      'other instances on this Redis refuse stream tokens of this one: ' +
        'set the same TURNSTREAM_STREAM_TOKEN_SECRET on all',
    )
  }
  return { ring, file }
}

function reloadKeys({ ring, file }: ServerKeys, logger: Logger): void {
  try {
    const keys = readKeysFile(file)
    ring.replace(keys)
    if (keys.length > 0) logger.info(`reloaded keys: ${describeKeys(keys)} in force`)
    else logger.warn('reloaded keys: none, so every request is refused')
  } catch (error) {
    logger.error(error)
    logger.warn(`could not reload keys: the previous ${ring.size} stay in force`)
  }
}

/** `3 keys of 2 tenants are`. */
function describeKeys(keys: readonly KeyEntry[]): string {
  const tenants = new Set(keys.map(({ tenant }) => tenant)).size
  const counted = keys.length === 1 ? '1 key' : `${keys.length} keys`
  const owners = tenants === 1 ? '1 tenant' : `${tenants} tenants`
  return `${counted} of ${owners} ${keys.length === 1 ? 'is' : 'are'}`
}

async function openLog({ store, settings }: ServeOptions, deps: Deps): Promise<TurnLog> {
  let isOpen = false
  try {
    const { clock } = deps.terminal
    // Before the port is open, an error is the reason for the failed start.
    const onError = (error: unknown) => isOpen && deps.logger.error(error)
    const log = await openStore(store, { ...settings, clock, onError })
    isOpen = true
    return log
  } catch (error) {
    if (!(error instanceof TurnstreamError)) throw error
    throw new StartError(storeFault(store, error), { cause: error })
  }
}

function gatewayOptions(
  { settings, instance }: ServeOptions,
  { logger, terminal }: Deps,
): Omit<GatewayOptions, 'log' | 'providers'> {
  return {
    ...settings,
    instance,
    clock: terminal.clock,
    caps: settings,
    limits: settings,
    ...webAccess(settings),
    ...(settings.logRequests && accessLog(logger)),
    openMetrics: isLoopback(settings.host),
    page: !settings.noPage,
    onUnknownEvent: (provider, type) => {
      logger.info(`${provider} sent an event of an unknown type, which is ignored: ${type}`)
    },
    onError: (error, about) => logger.error(error, about),
  }
}

function listenOn(gateway: Gateway, { settings }: ServeOptions, logger: Logger) {
  const onConnectionsRefused = ({ refused, maxConnections }: RefusedConnections) => {
    const cause =
      maxConnections < settings.maxConnections
        ? 'the open file limit allows no more; raise it with ulimit -n'
        : 'raise --max-connections to allow more'
    logger.warn(`refused ${refused} connections: ${maxConnections} are open, and ${cause}`)
  }
  return listen(gateway, { ...settings, onConnectionsRefused }).catch((error: unknown) => {
    if (!hasCode(error, 'OPTION_INVALID')) throw error
    throw new StartError(withoutSummary(error), { cause: error })
  })
}

// Ctrl-C reaches every process of the terminal, and npm also forwards it to its child.
const SAME_SIGNAL_MS = 250

/** Resolves with the first signal. A second one exits the process immediately. */
function firstSignal({ logger, terminal }: Deps): Promise<void> {
  const { clock } = terminal
  let firstAt: number | undefined
  return new Promise((resolve) => {
    terminal.onSignal(() => {
      firstAt ??= clock.now()
      resolve()
      if (clock.now() - firstAt < SAME_SIGNAL_MS) return
      logger.info('exited immediately after a second signal')
      terminal.exit(EXIT.failed)
    })
  })
}

const WATCH_EVERY_MS = 1000

/** Time services slew by less than a millisecond per second; a larger change is a step. */
const CLOCK_STEP_MS = 500

/** Warns when the system clock is set while the server runs. This only affects timestamps. */
export function watchClock(logger: Pick<Logger, 'warn'>, clock: Clock): () => void {
  const offset = () => clock.now() - monotonicNow(clock)
  let before = offset()
  let cancel = clock.after(WATCH_EVERY_MS, checkClock)
  function checkClock(): void {
    const now = offset()
    const stepMs = Math.round(now - before)
    if (Math.abs(stepMs) >= CLOCK_STEP_MS) {
      const direction = stepMs > 0 ? 'forward' : 'back'
      logger.warn(`the system clock was set ${direction} by ${Math.abs(stepMs)} ms`)
    }
    before = now
    cancel = clock.after(WATCH_EVERY_MS, checkClock)
  }
  return () => cancel()
}

function banner(
  url: string,
  options: ServeOptions,
  { isInteractive, columns }: Terminal,
  keys?: ServerKeys,
): string {
  const { store, providers, settings } = options
  const { retentionMs } = settings
  const retention = retentionMs === undefined ? '' : `, for ${formatDuration(retentionMs)}`
  const local = url.replace(/\/\/(0\.0\.0\.0|\[::\])/, '//127.0.0.1')
  const lines = providers.map((each) => {
    const names = [...listedModels(each), ...(each.models === 'any' ? ['any'] : [])].join(', ')
    return `${each.provider.id}: ${names}`
  })
  if (providers.length === 1) {
    lines.push('for a real model set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY')
  }
  const facts = [
    `turnstream listening on ${url}`,
    `  store      ${describeStore(store)}${retention}`,
    `  providers  ${lines.join(`\n${' '.repeat(13)}`)}`,
    ...(keys === undefined ? [] : [`  keys       required: ${keys.ring.size} in ${keys.file}`]),
    ...(keys === undefined ? [] : [`             reload after a change: kill -HUP ${process.pid}`]),
    ...(settings.noPage ? [] : [`  chat       ${local}/`]),
    `  docs       ${local}${ROUTES.docs}`,
  ].join('\n')
  return [
    isInteractive ? wrap(facts, columns) : facts,
    '',
    `Try it in another terminal${keys === undefined ? '' : ', with a key in TURNSTREAM_KEY'}:`,
    ...examples(local, keys !== undefined).map((line) => `  ${line}`),
    '',
  ].join('\n')
}

/** They name a turn id, so they work unchanged and can be repeated. */
function examples(url: string, needsKey: boolean): string[] {
  const key = needsKey ? ' -H "authorization: Bearer $TURNSTREAM_KEY"' : ''
  const body = JSON.stringify({ turnId: 'first-turn', prompt: 'What is turnstream?' })
  return [
    `curl -sw '\\n' ${url}${ROUTES.submit}${key} -H 'content-type: application/json' -d '${body}'`,
    `curl -sN ${url}${ROUTES.turnOutputStream.replace(':turnId', 'first-turn')}${key}`,
    `npx turnstream chat${url === DEFAULT_URL ? '' : ` --url ${url}`}`,
  ]
}

function bannerJson(url: string, options: ServeOptions, keys?: ServerKeys): string {
  const { kind, ...store } = options.store
  return jsonLine({
    url,
    store: {
      kind,
      ...('directory' in store && { directory: store.directory }),
      ...('url' in store && { url: publicUrl(store.url) }),
    },
    providers: options.providers.map(({ provider }) => provider.id),
    models: options.models.models,
    keys: keys?.ring.size,
  })
}
