import { vi } from 'vitest'

/** Repeats an assertion until it holds. The default of `vi.waitFor`, a second, is short on a busy machine. */
export function eventually<T>(assertion: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(assertion, { timeout: 15_000 })
}
