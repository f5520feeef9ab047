import { clip } from '../../output-lines.ts'
import type { Check } from '../check.ts'

/** What a server does otherwise than it should. */
export interface Fault {
  readonly expected: string
  readonly came: string
}

/** A look at something recorded: what is wrong with it, or nothing. */
export type Rule<T> = (recorded: T) => Fault | undefined

const MAX_SHOWN = 160

/** Anything as one short line. */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing'
  return clip(typeof value === 'string' ? value : JSON.stringify(value), MAX_SHOWN)
}

export function faultCheck(name: string, fault: Fault | undefined, fine: string): Check {
  if (fault === undefined) return { name, verdict: 'ok', found: fine }
  return { name, verdict: 'fail', found: fault.came, expected: fault.expected }
}
