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

/** The object that a JSON text holds; undefined when it holds anything else, or is no JSON. */
export function parseJsonObject(json: string): Record<string, unknown> | undefined {
  const value = parseJsonSafe(json)
  return isRecord(value) ? value : undefined
}
