/** Reads single fields of untrusted JSON. */
import { isRecord } from '../../protocol/json.ts'

export type Fields = Record<string, unknown>

export function fieldsOf(value: unknown): Fields {
  return isRecord(value) ? value : {}
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** A name by which something can be found again. */
export function idOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** The fields that say something, without those named. */
export function fieldsWithout(fields: Fields, names: ReadonlySet<string>): Fields {
  const said = Object.entries(fields).filter(([name, value]) => {
    return !names.has(name) && value !== null && value !== undefined
  })
  return Object.fromEntries(said)
}

/** The texts among the parts of a list: strings, or what carries one. */
export function textsOf(value: unknown): readonly string[] {
  return listOf(value)
    .map((part) => textOf(part) ?? textOf(fieldsOf(part)['text']))
    .filter((text) => text !== undefined)
}

/** JSON text; of what has none (cycles, nesting without end) `null`. */
export function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'null'
  } catch {
    return 'null'
  }
}
