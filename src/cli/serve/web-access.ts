import type { GatewayOptions } from '../../server/gateway.ts'
import { LOOPBACK_NAMES } from '../../server/web/hosts.ts'
import { ANY_ORIGIN } from '../../server/web/origins.ts'
import { UsageError } from '../command.ts'
import { isLoopback } from './loopback.ts'
import type { Settings } from './settings.ts'

/** Which pages may ask, and by which names. */
export function webAccessOf(
  settings: Settings,
): Pick<GatewayOptions, 'corsOrigins' | 'allowedHosts'> {
  const { corsOrigins } = settings
  const allowedHosts = namesOf(settings)
  return {
    ...(corsOrigins !== undefined && { corsOrigins }),
    ...(allowedHosts !== undefined && { allowedHosts }),
  }
}

/**
 * What is open to this machine is open to every page that its users visit, if the page can give its own name
 * to the machine: only names that are known are answered there. Where a key is needed, or anybody may come
 * anyway, a name protects nothing, and is asked for only if somebody says so.
 */
function namesOf({ host, keysFile, allowedHosts }: Settings): readonly string[] | undefined {
  if (keysFile !== undefined || !isLoopback(host)) return allowedHosts
  return [...LOOPBACK_NAMES, host, ...(allowedHosts ?? [])]
}

/** Without keys every page of the web could read every turn and use every provider. */
export function refuseOpenOrigins({ corsOrigins = [], keysFile }: Settings): void {
  if (!corsOrigins.includes(ANY_ORIGIN)) return
  if (corsOrigins.length > 1)
    throw new UsageError('corsOrigins: * is every origin, and stands alone')
  if (keysFile !== undefined) return
  throw new UsageError(
    'corsOrigins: * would let every page that somebody on this machine visits use the server: name the ' +
      'origins, or have it ask for keys with TURNSTREAM_KEYS_FILE',
  )
}
