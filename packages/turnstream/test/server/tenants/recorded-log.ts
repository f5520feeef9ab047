import type { TurnLog } from '../../../../core/src/log/turn-log.ts'

/** What those who run turns do in their own time. */
const OF_THE_RUNNER = new Set(['append', 'cancelled', 'claim', 'expired', 'orphans', 'renew'])

/**
 * The same log, which writes down what is called. Whatever takes the same calls takes the same time, but for
 * what the store finds: and a store looks for what is another tenant's in the same place where nothing is.
 */
export function recordedLog(log: TurnLog, calls: string[]): TurnLog {
  const tenants = new Map<string, TurnLog>()
  const ofTenant = (tenant: string): TurnLog => {
    const known = tenants.get(tenant) ?? recordedLog(log.ofTenant(tenant), calls)
    tenants.set(tenant, known)
    return known
  }
  return new Proxy(log, {
    get(target, name) {
      if (name === 'ofTenant') return ofTenant
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      return (...args: unknown[]): unknown => {
        if (!OF_THE_RUNNER.has(String(name))) calls.push(String(name))
        return Reflect.apply(member, target, args)
      }
    },
  })
}
