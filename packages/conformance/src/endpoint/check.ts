import type { Redact } from '@turnstream/core/internal/protocol/redaction'

export type Verdict = 'ok' | 'warn' | 'fail' | 'skipped'

export interface Check {
  /** A stable name, for scripts. */
  readonly name: string
  readonly verdict: Verdict
  readonly found: string
  /** The expected value, where it is not obvious. */
  readonly expected?: string
  /** One sentence with the command to run. */
  readonly fix?: string
  /** The numbers in `found`, for scripts. */
  readonly counts?: Readonly<Record<string, number>>
}

export function ok(name: string, found: string): Check {
  return { name, verdict: 'ok', found }
}

export function skipped(name: string, found: string): Check {
  return { name, verdict: 'skipped', found }
}

export function warn(name: string, found: string, fix: string): Check {
  return { name, verdict: 'warn', found, fix }
}

export function fail(name: string, found: string, fix: string): Check {
  return { name, verdict: 'fail', found, fix }
}

/** The outcomes of one check. */
export const checkNamed = (name: string) => ({
  ok: (found: string) => ok(name, found),
  skipped: (found: string) => skipped(name, found),
  warn: (found: string, fix: string) => warn(name, found, fix),
  fail: (found: string, fix: string) => fail(name, found, fix),
})

export function isAtLeast(version: string, least: readonly [number, number]): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > least[0] || (major === least[0] && minor >= least[1])
}

export function redactCheck(check: Check, redact: Redact): Check {
  const fields = Object.entries(check).map(([name, value]) => [
    name,
    typeof value === 'string' ? redact(value) : value,
  ])
  return Object.fromEntries(fields) as Check
}
