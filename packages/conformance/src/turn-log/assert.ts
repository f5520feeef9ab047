/** The suite has its own few assertions, so that it works with any test runner. */

export function ok(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message)
}

/** Compares by value. An undefined field counts as missing. */
export function equal(actual: unknown, expected: unknown, what: string): void {
  const [is, should] = [textOf(actual), textOf(expected)]
  if (is === should) return
  throw new Error(`${what} should be\n  ${excerpt(should, is)}\nand is\n  ${excerpt(is, should)}`)
}

/** Expects a rejection with a code of this package. Returns the error. */
export async function rejects(promise: Promise<unknown>, code: string, what: string) {
  let value: unknown
  try {
    value = await promise
  } catch (error) {
    const actual = codeOf(error)
    if (actual === code) return error as Record<string, unknown>
    throw new Error(`${what} should be refused with ${code}, not with ${actual}`, { cause: error })
  }
  throw new Error(`${what} should be refused with ${code}, and gave ${excerpt(textOf(value))}`)
}

/** Expects one of several calls to succeed and the others to be refused. Returns the result and its place. */
export async function oneSucceeds<T>(calls: readonly Promise<T>[], code: string) {
  const settled = await Promise.allSettled(calls)
  const won = settled.flatMap((each, at) =>
    each.status === 'fulfilled' ? [{ at, value: each.value }] : [],
  )
  for (const each of settled) {
    if (each.status === 'rejected') equal(codeOf(each.reason), code, 'a refusal')
  }
  const [winner] = won
  ok(winner !== undefined && won.length === 1, `${won.length} of ${calls.length} calls succeeded`)
  return winner
}

/** Returns the code of an error of this package, or the text of any other. */
export function codeOf(error: unknown): string {
  if (error instanceof Error && 'code' in error) return String(error.code)
  return String(error)
}

/** A record may compute its fields lazily. */
function fieldsOf(value: object): object {
  if (!('offset' in value && 'eventId' in value)) return value
  const { offset, data, eventId, timestamp, key, event, output } = value as Record<string, unknown>
  return { offset, data, eventId, timestamp, key, event, output }
}

/** Sorted by name, so that field order does not matter. */
function textOf(value: unknown): string {
  const text = JSON.stringify(value, (_key, inner: unknown) => {
    if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) return inner
    const fields = Object.entries(fieldsOf(inner))
    return Object.fromEntries(fields.toSorted(([a], [b]) => (a < b ? -1 : 1)))
  })
  return text ?? String(value)
}

const EXCERPT_CHARS = 600

/** Returns the part of a long text that differs from another. */
function excerpt(text: string, other = ''): string {
  if (text.length <= EXCERPT_CHARS) return text
  let same = 0
  while (same < text.length && text[same] === other[same]) same += 1
  const start = Math.max(0, same - EXCERPT_CHARS / 4)
  return `…${text.slice(start, start + EXCERPT_CHARS)}…`
}
