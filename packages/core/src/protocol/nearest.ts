/** Returns the name that was probably meant, if one is close enough. */
export function nearest(typed: string, names: readonly string[]): string | undefined {
  return nearestNames(typed, names, 1)[0]
}

// The comparison takes time proportional to the product of both lengths.
export const MAX_TYPED_CHARS = 128

/** Returns the names that were probably meant, nearest first. */
export function nearestNames(typed: string, names: readonly string[], max: number): string[] {
  if (typed.length > MAX_TYPED_CHARS) return []
  return names
    .map((name) => ({ name, distance: distanceOf(typed.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, distance }) => distance <= Math.max(2, name.length / 3))
    .toSorted((a, b) => a.distance - b.distance)
    .slice(0, max)
    .map(({ name }) => name)
}

/** Enough for all commands. A longer list is unreadable in a sentence; the help has it. */
const MAX_LISTED = 16

/** Returns `; did you mean …?`, or the list of names when none is close. */
export function suggestion(typed: string, names: readonly string[]): string {
  const name = nearest(typed, names)
  if (name !== undefined) return `; did you mean ${name}?`
  return names.length > MAX_LISTED ? '' : `; available: ${names.join(', ')}`
}

/** Levenshtein distance, computed one row at a time. */
function distanceOf(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (const [i, char] of a.split('').entries()) {
    const next = [i + 1]
    for (const [j, other] of b.split('').entries()) {
      const replaced = (row[j] ?? 0) + (char === other ? 0 : 1)
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
