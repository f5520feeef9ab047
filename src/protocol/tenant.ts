/** Whose turns they are when nobody needs a key. */
export const DEFAULT_TENANT = 'default'

/** Without anything that has a meaning in a key of a store, a line of a file of keys, or an address. */
const TENANT = /^[a-z0-9][a-z0-9_-]{0,63}$/

export function isTenant(name: string): boolean {
  return TENANT.test(name)
}
