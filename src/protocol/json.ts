/** Parses JSON, or hands the text back when it is none. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller names the shape
export function parseJsonSafe<T = unknown>(json: string): T | string {
  try {
    return JSON.parse(json) as T
  } catch {
    return json // by contract the text itself is the answer, nothing was lost
  }
}

/** True for what JSON calls an object: not null, not an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** How deeply JSON from outside may be nested: nobody comes near it, and every engine can write it. */
export const MAX_JSON_NESTING = 500

/**
 * The object that a JSON text holds; undefined when it holds anything else, is no JSON, or is nested so
 * deeply that it could not be written again.
 */
export function parseJsonObject(json: string): Record<string, unknown> | undefined {
  if (isNestedDeeperThan(json, MAX_JSON_NESTING)) return undefined
  const value = parseJsonSafe(json)
  return isRecord(value) ? value : undefined
}

/**
 * Whether a JSON text is nested more deeply than `depth`. What can be parsed cannot always be written
 * again: the engine runs out of stack, and at a depth that nobody documents.
 */
export function isNestedDeeperThan(text: string, depth: number): boolean {
  if (text.length <= 2 * depth) return false
  let level = 0
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (char === '"') at = endOfString(text, at)
    else if (char === '[' || char === '{') level += 1
    else if (char === ']' || char === '}') level -= 1
    if (level > depth) return true
  }
  return false
}

/** Where the string that begins at `start` ends; the end of the text when it does not. */
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
