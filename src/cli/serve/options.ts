import { isIPv4 } from 'node:net'
import { hostname } from 'node:os'
import { redacting } from '../../protocol/redaction.ts'
import type { GatewayOptions } from '../../server/gateway.ts'
import { LOOPBACK_NAMES } from '../../server/web/hosts.ts'
import { ANY_ORIGIN } from '../../server/web/origins.ts'
import type { ConfiguredProvider } from '../../turns/providers.ts'
import { UsageError } from '../command.ts'
import type { Terminal } from '../terminal.ts'
import { type Configuration, parseSources, readConfiguration } from './configuration.ts'
import { activeProviders, secretsOf } from './providers.ts'
import type { Settings } from './settings.ts'
import { warningsOf } from './warnings.ts'

/** Everything that a server is started with, decoded and checked. */
export interface ServeOptions extends Configuration {
  readonly json: boolean
  readonly instance: string
  /** The default one first. */
  readonly providers: readonly ConfiguredProvider[]
  readonly redact: (text: string) => string
  /** What is not as it should be, for people. */
  readonly warnings: readonly string[]
}

export function parseServeOptions(
  args: string[],
  terminal: Pick<Terminal, 'env' | 'cwd'>,
): ServeOptions {
  const { json, sources } = parseSources(args, terminal)
  const configuration = readConfiguration(sources)
  const { settings } = configuration
  refusePublic(settings)
  refuseOpenOrigins(settings)
  return {
    ...configuration,
    json,
    instance: settings.instance ?? `${hostname()}:${process.pid}`,
    providers: activeProviders(configuration),
    redact: redacting(secretsOf(configuration)),
    warnings: warningsOf(configuration),
  }
}

/** Whether only this machine reaches what listens there. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
}

/** Without keys, whoever reaches the port reads every turn and spends our money. */
export function refusePublic({ host, keysFile, allowPublicWithoutKeys }: Settings): void {
  if (keysFile !== undefined || allowPublicWithoutKeys || isLoopback(host)) return
  throw new UsageError(
    `${host} can be reached from other machines, and anybody there could read every turn and use every ` +
      'provider: make a key with "turnstream keys add <tenant> --file turnstream.keys" and set ' +
      'TURNSTREAM_KEYS_FILE=turnstream.keys, or accept it with --allow-public-without-keys',
  )
}

/** Without keys every page of the web could read every turn and use every provider. */
function refuseOpenOrigins({ corsOrigins = [], keysFile }: Settings): void {
  if (!corsOrigins.includes(ANY_ORIGIN)) return
  if (corsOrigins.length > 1) {
    throw new UsageError('corsOrigins: * is every origin, and stands alone')
  }
  if (keysFile !== undefined) return
  throw new UsageError(
    'corsOrigins: * would let every page that somebody on this machine visits use the server: name the ' +
      'origins, or have it ask for keys with TURNSTREAM_KEYS_FILE',
  )
}

/**
 * The origins that may use the API, and the names that are answered. A server on loopback without keys is open
 * to every page that can give its own name to this machine (DNS rebinding), so only known names are answered.
 * Where a key is needed, or anybody may come anyway, a name protects nothing: any is answered by default.
 */
export function webAccess({
  host,
  keysFile,
  corsOrigins,
  allowedHosts,
}: Settings): Pick<GatewayOptions, 'corsOrigins' | 'allowedHosts'> {
  const names =
    keysFile !== undefined || !isLoopback(host)
      ? allowedHosts
      : [...LOOPBACK_NAMES, host, ...(allowedHosts ?? [])]
  return { ...(corsOrigins && { corsOrigins }), ...(names && { allowedHosts: names }) }
}
