const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** The milliseconds of `500ms`, `10s`, `30m`, `24h` or `7d`; a number alone could mean any of them. */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/.exec(text.trim())
  if (match === null) return undefined
  const [, amount, unit] = match
  const ms = Math.round(Number(amount) * UNITS[unit as keyof typeof UNITS])
  return Number.isSafeInteger(ms) && ms > 0 ? ms : undefined
}

/** For people: in the largest unit that leaves no fraction. */
export function formatDuration(ms: number): string {
  const units = Object.entries(UNITS).toReversed()
  const [unit, size] = units.find(([, size]) => ms % size === 0) ?? ['ms', 1]
  return `${ms / size}${unit}`
}
