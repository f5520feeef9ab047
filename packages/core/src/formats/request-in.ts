import { isRecord } from '../protocol/json.ts'

export const MAX_TOKENS = 10_000_000

/** The maximum size of a turn. `maxBodyBytes` limits the request first. */
export const MAX_TEXT_CHARS = 10_000_000

/** Of the schema of a tool or an output. */
export const MAX_SCHEMA_CHARS = 200_000

export const MAX_DESCRIPTION_CHARS = 20_000

export const MAX_NAMES = 10
const MAX_NAME_CHARS = 100

/** What was ignored of a request, each name once. Bounded, whatever the request holds. */
export class IgnoredNames {
  readonly #names = new Set<string>()

  add(name: string): void {
    if (this.#names.size < MAX_NAMES) this.#names.add(name.slice(0, MAX_NAME_CHARS))
  }

  /** Adds the fields that are set and not known: `messages[].x`. */
  addUnknown(value: unknown, known: ReadonlySet<unknown>, path = ''): void {
    if (!isRecord(value)) return
    for (const name in value) {
      if (this.#names.size >= MAX_NAMES) return
      const given = value[name]
      if (given === null || given === undefined || known.has(name)) continue
      this.add(path === '' ? name : `${path}.${name}`)
    }
  }

  get list(): string[] {
    return [...this.#names]
  }
}

/** A type from outside, for a header: `tools[0] (web_search)`. */
export function typeName(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, 64) : typeof value
}

type Defined<T> = { [Name in keyof T]?: NonNullable<T[Name]> }

export function omitNullish<T extends object>(fields: T): Defined<T> {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null)
  return Object.fromEntries(given) as Defined<T>
}
