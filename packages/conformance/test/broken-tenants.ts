import { TurnstreamError } from '../../core/src/index.ts'
import { type Break, broken } from './broken.ts'

/** The logs of other tenants, changed. */
function brokenTenants(change: Break): Break {
  return (log) => ({ ofTenant: (tenant) => broken(log.ofTenant(tenant), change) })
}

/** What is wrong with a log of several tenants, a part of the name of a case that has to notice, and the log. */
export const BROKEN_TENANTS: Record<string, readonly [noticedBy: string, change: Break]> = {
  'gives all tenants the same turns': [
    'L13 the same ids coexist in any number of tenants and reveal no tenant',
    (log) => ({ ofTenant: () => log }),
  ],
  'takes any name for a tenant': [
    'L13 an invalid tenant name is OPTION_INVALID',
    (log) => ({ ofTenant: (tenant) => log.ofTenant(/^[a-z]+$/.test(tenant) ? tenant : 'other') }),
  ],
  'makes a log each time that a tenant is asked for': [
    'L13 a tenant gets the same log object from every log of the store',
    brokenTenants(() => ({})),
  ],
  'names the orphans of one tenant only': [
    'L13 orphans lists the turns of all tenants, expired those of one',
    (log) => ({
      async orphans(limit) {
        const turnIds = await log.expired(limit)
        return turnIds.map((turnId) => ({ tenant: 'default', turnId }))
      },
    }),
  ],
  'names the orphans of all tenants as its own': [
    'L13 orphans lists the turns of all tenants, expired those of one',
    brokenTenants((log) => ({
      expired: async (limit) => (await log.orphans(limit)).map(({ turnId }) => turnId),
    })),
  ],
  'lists the threads of all tenants': [
    "L13 listings hold only the tenant's own entries, with any page size",
    brokenTenants((log) => ({
      async listThreads(options) {
        const { items, ...rest } = await log.listThreads(options)
        const others = await log.ofTenant('default').listThreads()
        return { items: [...items, ...others.items], ...rest }
      },
    })),
  ],
  'says in other words that a turn is of another tenant': [
    "L13 the response for another tenant's id equals that for an unknown id",
    brokenTenants((log) => ({
      async snapshot(turnId) {
        const isOthers = (await log.ofTenant('beta').getTurn(turnId)) !== undefined
        const isOwn = (await log.getTurn(turnId)) !== undefined
        if (isOthers && !isOwn) throw new TurnstreamError('TURN_UNKNOWN', `${turnId} is not yours`)
        return log.snapshot(turnId)
      },
    })),
  ],
  'takes a text with a space for a tenant and an id': [
    "L13 no crafted id reaches another tenant's data",
    brokenTenants((log) => ({
      async getTurn(turnId) {
        const [tenant = '', id] = turnId.split(' ')
        const isKey = id !== undefined && tenant === 'beta'
        return isKey ? log.ofTenant(tenant).getTurn(id) : log.getTurn(turnId)
      },
    })),
  ],
  'closes nothing when a tenant is closed': [
    'L13 closing the log of any tenant closes the store for all',
    brokenTenants(() => ({ close: async () => {} })),
  ],
  'lets a deletion through to another tenant': [
    'L13 deleting a turn or thread does not affect those of other tenants',
    (log) => ({
      async deleteThread(threadId) {
        await log.ofTenant('beta').deleteThread(threadId)
        return log.deleteThread(threadId)
      },
    }),
  ],
}
