import type { Redact } from '../../protocol/redaction.ts'

export type Verdict = 'ok' | 'warn' | 'fail' | 'skipped'

/** What one look at one thing has come to. */
export interface Check {
  /** A few words that stay the same, for scripts. */
  readonly name: string
  readonly verdict: Verdict
  readonly found: string
  /** What should have been found, where that is not plain. */
  readonly expected?: string
  /** One sentence, with what to type. */
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

/** The same without secrets. */
export function redactCheck(check: Check, redact: Redact): Check {
  const { found, expected, fix } = check
  return {
    ...check,
    found: redact(found),
    ...(expected !== undefined && { expected: redact(expected) }),
    ...(fix !== undefined && { fix: redact(fix) }),
  }
}
