import { isRecord, parseJsonSafe } from '../../protocol/json.ts'

/**
 * The key in a JSON text that would change what all objects have in common, were the value merged into
 * another without care: here nobody does that, but the value is kept, and handed to providers and clients.
 * The text is nested only so deeply that a function can follow.
 */
export function poisonedKey(text: string): string | undefined {
  return mayBePoisoned(text) ? keyIn(parseJsonSafe(text)) : undefined
}

/** Nearly every text is told to be harmless by this alone. Letters of a key may be written as escapes. */
function mayBePoisoned(text: string): boolean {
  return (
    text.includes('__proto__') ||
    text.includes(String.raw`\u00`) ||
    (text.includes('constructor') && text.includes('prototype'))
  )
}

function keyIn(value: unknown): string | undefined {
  if (Array.isArray(value)) return firstOf(value, keyIn)
  if (!isRecord(value)) return undefined
  if (Object.hasOwn(value, '__proto__')) return '__proto__'
  const { constructor } = value
  if (isRecord(constructor) && Object.hasOwn(constructor, 'prototype')) {
    return 'constructor.prototype'
  }
  return firstOf(Object.values(value), keyIn)
}

function firstOf<T>(
  values: readonly T[],
  find: (value: T) => string | undefined,
): string | undefined {
  for (const value of values) {
    const found = find(value)
    if (found !== undefined) return found
  }
  return undefined
}
