import { TurnstreamError } from '../protocol/errors.ts'
import { DEFAULT_TENANT, isTenant } from '../protocol/tenant.ts'
import type { TurnLog } from './turn-log.ts'

/** The logs of one store by tenant, each of them made once. */
export class Tenants<Log> {
  readonly #logs: Map<string, Log>
  readonly #make: (tenant: string) => Log

  constructor(ofDefault: Log, make: (tenant: string, tenants: Tenants<Log>) => Log) {
    this.#logs = new Map([[DEFAULT_TENANT, ofDefault]])
    this.#make = (tenant) => make(tenant, this)
  }

  /** OPTION_INVALID if it cannot be the name of a tenant. */
  of(tenant: string): Log {
    const known = this.#logs.get(tenant)
    if (known !== undefined) return known
    if (!isTenant(tenant)) throw new TurnstreamError('OPTION_INVALID', 'the name of a tenant')
    const made = this.#make(tenant)
    this.#logs.set(tenant, made)
    return made
  }

  /** Those that were asked for, with the default one. */
  entries(): Iterable<[string, Log]> {
    return this.#logs.entries()
  }
}

/** The log of a tenant. That of the default one is the log as it was given, whatever it may be wrapped in. */
export function logOf(log: TurnLog, tenant: string): TurnLog {
  return tenant === DEFAULT_TENANT ? log : log.ofTenant(tenant)
}
