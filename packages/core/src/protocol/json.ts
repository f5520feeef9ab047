import { jsonPieces } from './json-pieces.ts'

/** Parses JSON; returns the text itself when it is not JSON. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller names the shape
export function parseJsonSafe<T = unknown>(json: string): T | string {
  try {
    return JSON.parse(json) as T
  } catch {
    return json // by contract the text itself is the answer, nothing was lost
  }
}

export function jsonLine(value: unknown): string {
  return `${JSON.stringify(value)}\n`
}

/** Returns whether a value is a JSON object: neither null nor an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The fields that are not undefined. */
export function withoutUndefined<Fields extends object>(
  fields: Fields,
): { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as ReturnType<typeof withoutUndefined<Fields>>
}

/** Returns the same JSON for the same value, whatever the order of the fields of its objects. */
export function stableJson(value: object): string {
  return JSON.stringify(value, inOrder)
}

/** Yields the same text in pieces. */
export function stableJsonPieces(value: object): Iterable<string> {
  return jsonPieces(value, inOrder)
}

/** JSON replacer that sorts the fields of every object. */
function inOrder(_key: string, value: unknown): unknown {
  if (!isRecord(value)) return value
  const names = Object.keys(value).toSorted()
  return Object.fromEntries(names.map((name) => [name, value[name]]))
}

/** Maximum nesting of JSON from outside. Far beyond real data, and every engine can serialise it. */
export const MAX_JSON_NESTING = 500

/** Maximum number of values of JSON from outside: members and elements. Far beyond real data, and parsed within milliseconds. */
export const MAX_JSON_VALUES = 100_000

/** Parses a JSON object. Returns undefined for anything else, too many values, or nesting too deep to serialise. */
export function parseJsonObject(
  json: string,
  maxValues = MAX_JSON_VALUES,
): Record<string, unknown> | undefined {
  if (exceeds(json, MAX_JSON_NESTING, maxValues)) return undefined
  const value = parseJsonSafe(json)
  return isRecord(value) ? value : undefined
}

/**
 * Returns whether a JSON text is nested more deeply than `depth`. Engines can parse deeper nesting than they
 * can serialise: they run out of stack at an undocumented depth.
 */
export function isNestedDeeperThan(text: string, depth: number): boolean {
  return exceeds(text, depth, Infinity)
}

function exceeds(text: string, depth: number, maxValues: number): boolean {
  if (text.length <= 2 * depth && text.length <= maxValues) return false
  let level = 0
  let values = 0
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (char === '"') at = endOfString(text, at)
    else if (char === ',') values += 1
    else if (char === '[' || char === '{') {
      level += 1
      values += 1
    } else if (char === ']' || char === '}') level -= 1
    if (level > depth || values > maxValues) return true
  }
  return false
}

/** Returns where the string that starts at `start` ends, or the end of the text. */
function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1)
  while (end !== -1 && isEscaped(text, end)) end = text.indexOf('"', end + 1)
  return end === -1 ? text.length : end
}

function isEscaped(text: string, quote: number): boolean {
  let backslashes = 0
  while (text[quote - 1 - backslashes] === '\\') backslashes += 1
  return backslashes % 2 === 1
}

/** Result of decoding untrusted input: the value, or the reason why it was rejected. */
export type Decoded<T> = { ok: true; value: T } | { ok: false; reason: string }

export function parseJson(text: string): Decoded<unknown> {
  try {
    return { ok: true, value: JSON.parse(text) }
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'unreadable'
    return { ok: false, reason: `not JSON: ${reason}` }
  }
}
