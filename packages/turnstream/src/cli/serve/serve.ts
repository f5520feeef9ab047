import { statSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { redacting } from '@turnstream/core/internal/protocol/redaction'
import { parseUrl } from '@turnstream/core/internal/protocol/url'
import { CODEX_ID } from '../../providers/provider.ts'
import { ANY_ORIGIN, LOOPBACK_NAMES } from '../../server/web/origins.ts'
import { type Command, EXIT, type Options, reportFailure, UsageError } from '../command.ts'
import type { Terminal } from '../terminal.ts'
import {
  CODEX_BINARY,
  CONFIG_FILE,
  CONFIG_OPTION,
  type Configuration,
  parseSources,
  readConfiguration,
  SETTING_OPTIONS,
} from './configuration.ts'
import { createLogger } from './logger.ts'
import {
  activeProviders,
  collectSecrets,
  providerPlans,
  readKey,
  secretVariables,
  withAliases,
} from './providers.ts'
import { readSecret } from './secrets.ts'
import { SECRET_NAMES, SETTINGS, type Setting, type Settings, toVariable } from './settings.ts'
import { StartError, storeSecrets } from './store.ts'
import { toolUrl, toolVariables } from './tool-settings.ts'
import { toolPlans } from './tools.ts'
import { TurnRecorder } from './turn-recorder.ts'

const runGateway = async (args: string[], terminal: Terminal, isForCodex: boolean) => {
  const onCodexLog = (line: string): void => logger.info(`codex: ${line}`)
  const options = parseServeOptions(args, terminal, isForCodex, onCodexLog)
  const { json, redact, settings } = options
  const logger = createLogger(terminal, { json, redact, logContent: settings.logContent })
  terminal.onCrash((error) => {
    logger.error(error)
    terminal.exit(EXIT.failed)
  })
  // Loaded on demand: the server is slow to load.
  const { runServer } = await import('./run-server.ts')
  try {
    return await runServer(options, { logger, terminal })
  } catch (error) {
    if (!(error instanceof StartError)) {
      logger.error(error)
      return EXIT.failed
    }
    // Standard output is for the banner, which programs wait for.
    const write = async (text: string) => terminal.writeError(text)
    return reportFailure({ message: redact(error.message) }, { ...terminal, write }, json)
  }
}

export const serve: Command = {
  name: 'serve',
  summary: 'run the gateway',
  usage: ['turnstream serve [options]'],
  about: `Turns are stored in ./.turnstream by default. Set provider keys in the environment: OPENAI_API_KEY,
ANTHROPIC_API_KEY, GEMINI_API_KEY, or OPENAI_COMPATIBLE_BASE_URL with OPENAI_COMPATIBLE_MODEL.
Without any, the scripted provider plays recorded turns.

Each option is also a key of the configuration file (shutdownGrace) and an environment variable
(TURNSTREAM_SHUTDOWN_GRACE). The command line wins over the environment, which wins over the file.`,
  options: {
    config: CONFIG_OPTION,
    json: { about: 'print the banner and the log as JSON lines' },
    ...SETTING_OPTIONS,
  },
  examples: ['turnstream serve', 'turnstream serve --port 8080 --store redis://localhost:6379'],
  exitCodes:
    '0 stopped by a signal · 1 could not start, or stopped by a second signal · 2 usage error',
  run: (args, terminal) => runGateway(args, terminal, false),
}

const ABOUT_BINARY = 'codex binary (from an installed @openai/codex or PATH)'
const CODEX_OPTIONS: Options = { [CODEX_BINARY]: { value: 'file', about: ABOUT_BINARY } }

export const codex: Command = {
  name: 'codex',
  summary: 'run the gateway in front of a codex app-server',
  usage: ['turnstream codex [--binary <file>] [options of serve]'],
  about: `Point an OpenAI client at /v1 and chat through codex. Starts a codex app-server with the first turn,
from an installed @openai/codex or the PATH. It calls the OpenAI API with OPENAI_API_KEY by default;
the key "codex" of turnstream.config.json names another Responses API, models and limits.`,
  options: { ...CODEX_OPTIONS, ...serve.options },
  examples: ['turnstream codex', 'turnstream codex --port 8080'],
  exitCodes: serve.exitCodes,
  run: (args, terminal) => runGateway(args, terminal, true),
}

export type ServeOptions = ReturnType<typeof parseServeOptions>

export function parseServeOptions(
  args: string[],
  terminal: Pick<Terminal, 'env' | 'cwd'>,
  isForCodex = false,
  onCodexLog?: (line: string) => void,
) {
  const { json, sources } = parseSources(args, terminal, isForCodex ? CODEX_OPTIONS : {})
  const configuration = readConfiguration({ ...sources, isForCodex })
  const { settings } = configuration
  refusePublic(settings)
  refuseOpenOrigins(settings)
  const secrets = collectSecrets(configuration)
  const directory = settings.record && resolve(terminal.cwd, settings.record)
  const recorder = directory ? new TurnRecorder({ ...settings, directory, secrets }) : undefined
  const providers = activeProviders(configuration, { onCodexLog, observeCall: recorder?.observe })
  return {
    ...configuration,
    json,
    instance: settings.instance ?? `${hostname()}:${process.pid}`,
    /** The default one first. */
    providers,
    /** The same, with the aliases. */
    models: withAliases(providers, configuration),
    recorder,
    tools: toolPlans(configuration),
    secrets,
    redact: redacting(secrets),
    warnings: findWarnings(configuration),
  }
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
}

/** Without keys, anyone who reaches the port can read every turn and use every provider. */
export function refusePublic({ host, keysFile, allowPublicWithoutKeys }: Settings): void {
  if (keysFile !== undefined || allowPublicWithoutKeys || isLoopback(host)) return
  throw new UsageError(
    `${host} is reachable from other machines, and anyone there could read every turn and use every ` +
      'provider: create a key with "turnstream keys add <tenant> --file turnstream.keys" and set ' +
      'TURNSTREAM_KEYS_FILE=turnstream.keys, or accept it with --allow-public-without-keys',
  )
}

/** Without keys, every web page could read every turn and use every provider. */
function refuseOpenOrigins({ corsOrigins = [], keysFile }: Settings): void {
  if (!corsOrigins.includes(ANY_ORIGIN)) return
  if (corsOrigins.length > 1) {
    throw new UsageError('corsOrigins: * allows every origin and must be the only entry')
  }
  if (keysFile !== undefined) return
  const advice = 'list the origins, or require keys with TURNSTREAM_KEYS_FILE'
  throw new UsageError(
    `corsOrigins: * would let every web page use a server without keys: ${advice}`,
  )
}

/** Without keys on loopback, a server only answers to known names, because of DNS rebinding. Otherwise they protect nothing. */
export function webAccess(settings: Settings) {
  const { host, keysFile, corsOrigins, allowedHosts } = settings
  const names =
    keysFile !== undefined || !isLoopback(host)
      ? allowedHosts
      : [...LOOPBACK_NAMES, host, ...(allowedHosts ?? [])]
  return { ...(corsOrigins && { corsOrigins }), ...(names && { allowedHosts: names }) }
}

export function findWarnings(configuration: Configuration): string[] {
  const { codex, env } = configuration
  const ids = providerPlans(configuration)
    .filter((plan) => readKey(plan, env) && isPlainHttp(plan.setting.baseUrl ?? ''))
    .map(({ id }) => id)
  if (isPlainHttp(codex?.baseUrl ?? '') && hasCodexKey(codex, env)) ids.push(CODEX_ID)
  const tools = configuration.toolSettings.filter(
    (setting) => toolVariables([setting]).length > 0 && isPlainHttp(toolUrl(setting)),
  )
  const risk = 'sent over plain http: anyone on the network path can read'
  return [
    ...secretWarnings(configuration),
    ...fileWarnings(configuration),
    ...ids.map((id) => `the key of ${id} is ${risk} it`),
    ...tools.map((each) => `secrets of ${'name' in each ? each.name : ''} are ${risk} them`),
  ]
}

function hasCodexKey(codex: Configuration['codex'], env: Configuration['env']): boolean {
  const { keyVariable, login } = codex ?? {}
  return login !== undefined || (keyVariable ? readSecret(env, keyVariable) !== undefined : false)
}

const EVERY_USER = 'every user of this machine'
const OTHERS_READ = 0o004
const OTHERS_WRITE = 0o002
/** Permission bits to list, enter or change a directory. */
export const OTHERS = 0o007

/** Warnings about secrets on the command line, or in a configuration file that others can read. */
function secretWarnings({ entries, store, cwd, configFile }: Configuration): string[] {
  return entries.flatMap(({ name, written }) => {
    const { secret: what }: Setting<unknown> = SETTINGS[name]
    if (what === undefined || (name === 'store' && storeSecrets(store).length === 0)) return []
    const variable = toVariable(name)
    if (written?.source === 'flag') {
      const advice = `set ${variable} or ${variable}_FILE`
      return [`${what} on the command line is visible to ${EVERY_USER}: ${advice}`]
    }
    if (written?.source !== 'file') return []
    const file = configFile ?? CONFIG_FILE
    return readableWarning(`${what} in ${file}`, resolve(cwd, file))
  })
}

function fileWarnings(configuration: Configuration): string[] {
  const { env, cwd, settings, store } = configuration
  const variables = [...SECRET_NAMES.map(toVariable), ...secretVariables(configuration)]
  const warnings = [...new Set(variables)].flatMap((name) => {
    const path = env[`${name}_FILE`]?.trim()
    return path ? readableWarning(`the file of ${name}_FILE`, path) : []
  })
  // Its hashes are not secret, but anyone who can add a line has a key.
  const keys = settings.keysFile === undefined ? undefined : resolve(cwd, settings.keysFile)
  if (keys !== undefined && isOpenTo(keys, OTHERS_WRITE)) {
    warnings.push(`the keys file is writable by ${EVERY_USER}: chmod o-w ${keys}`)
  }
  // A missing directory will be created for its owner only.
  const directory = store.kind === 'embedded' ? store.directory : undefined
  if (directory !== undefined && isOpenTo(directory, OTHERS)) {
    warnings.push(`the store directory is accessible to ${EVERY_USER}: chmod 700 ${directory}`)
  }
  return warnings
}

function readableWarning(what: string, path: string): string[] {
  if (!isOpenTo(path, OTHERS_READ)) return []
  return [`${what} is readable by ${EVERY_USER}: chmod o-r ${path}`]
}

/** Whether other users have these permission bits. False on systems without them. */
export function isOpenTo(path: string, bits: number): boolean {
  if (process.platform === 'win32') return false
  try {
    return (statSync(path).mode & bits) !== 0
  } catch {
    // Missing or inaccessible: reading the file will report it with its name.
    return false
  }
}

export function isPlainHttp(address: string): boolean {
  const { protocol, hostname = '' } = parseUrl(address) ?? {}
  return protocol === 'http:' && !/^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)
}
