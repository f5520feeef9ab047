import type { TurnLogUnderTest } from '../../../conformance/src/index.ts'

/** The same store, of which the suite gets the log of a tenant only. */
export function ofTenant(under: TurnLogUnderTest, tenant: string): TurnLogUnderTest {
  const another = under.another?.bind(under)
  const reopen = under.reopen?.bind(under)
  return {
    log: under.log.ofTenant(tenant),
    elapse: (ms) => under.elapse(ms),
    ...(another && { another: async () => (await another()).ofTenant(tenant) }),
    ...(reopen && { reopen: async () => (await reopen()).ofTenant(tenant) }),
    dispose: () => under.dispose(),
  }
}
