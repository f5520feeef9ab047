import { ROUTES } from '../../protocol/names.ts'

const PROBES: ReadonlySet<string> = new Set([ROUTES.health, ROUTES.ready])

/** What probes ask for, by whatever name or address they have. It tells nothing, and takes nothing. */
export function isProbe(path: string): boolean {
  return PROBES.has(path)
}
