/** The tenant of all turns when no keys are configured. */
export const DEFAULT_TENANT = 'default'

/** Excludes every character with a meaning in a store key, a keys file or a URL. */
const TENANT = /^[a-z0-9][a-z0-9_-]{0,63}$/

export function isTenant(name: string): boolean {
  return TENANT.test(name)
}
