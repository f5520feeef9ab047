import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { DEFAULT_TENANT, isTenant } from '@turnstream/core/internal/protocol/names'

export class Tenants<Log> {
  readonly #logs: Map<string, Log>
  readonly #make: (tenant: string) => Log

  constructor(ofDefault: Log, make: (tenant: string, tenants: Tenants<Log>) => Log) {
    this.#logs = new Map([[DEFAULT_TENANT, ofDefault]])
    this.#make = (tenant) => make(tenant, this)
  }

  /** Throws OPTION_INVALID for an invalid tenant name. */
  of(tenant: string): Log {
    const known = this.#logs.get(tenant)
    if (known !== undefined) return known
    checkTenant(tenant)
    const made = this.#make(tenant)
    this.#logs.set(tenant, made)
    return made
  }

  /** The logs requested so far, including the default one. */
  entries(): Iterable<[string, Log]> {
    return this.#logs.entries()
  }
}

export function checkTenant(tenant: string): void {
  if (!isTenant(tenant)) throw new TurnstreamError('OPTION_INVALID', 'malformed tenant name')
}

/** Returns the log of a tenant. For the default tenant it is the given log itself, however it is wrapped. */
export function logOf(log: TurnLog, tenant: string): TurnLog {
  return tenant === DEFAULT_TENANT ? log : log.ofTenant(tenant)
}

/** Ids contain no space: what begins with a name and a space belongs to that tenant. */
export function parseTenantKey(key: string): { tenant: string; id: string } {
  const end = key.indexOf(' ')
  if (end === -1) return { tenant: DEFAULT_TENANT, id: key }
  return { tenant: key.slice(0, end), id: key.slice(end + 1) }
}
