import { isNestedDeeperThan, isRecord, MAX_JSON_NESTING } from '../protocol/json.ts'
import { REDACTED, type Redact, redactingValues, secretSpellings } from '../protocol/redaction.ts'
import { parseUrl } from '../protocol/url.ts'
import { fromBinary, toBinary } from './cassette.ts'

export type HeaderFields = Readonly<Record<string, string>>

/** Headers and parameters of a URL whose values are secrets, by name. */
const SECRET_NAME =
  /authorization|cookie|(?:^|[-_])(?:token|secret|password|passwd|signature|sig|credentials?)(?:$|[-_])|(?:^|[-_])(?:api)?[-_]?key$/i

/** These look like secrets by name. */
const NOT_SECRET = /^(?:idempotency-key|prompt_cache_key|sec-websocket-key)$/i

/** The same for fields of a body, where many a `key` or `signature` is content. */
const SECRET_FIELD =
  /^(?:(?:proxy-)?authorization(?:_token)?|(?:x-)?(?:goog-)?api[-_]?key|(?:access|refresh)[-_]?token|(?:client[-_]?)?secret|password|cookie)$/i

/** Shorter values are not credentials. Redacting every occurrence of one would ruin the text. */
const MIN_SECRET_CHARS = 8

export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name) && !NOT_SECRET.test(name)
}

/** Credentials of a request: their values are redacted wherever they occur. */
export function secretsOf(headers: HeaderFields, url: string): string[] {
  const inHeaders = Object.entries(headers)
    .filter(([name]) => isSecretName(name))
    .flatMap(([name, value]) => (/cookie/i.test(name) ? cookiesIn(value) : value.split(/\s+/)))
  const parsed = parseUrl(url)
  const inUrl = [...(parsed?.searchParams ?? [])]
    .filter(([name]) => isSecretName(name))
    .map(([, value]) => value)
  const ofUser = parsed === undefined ? [] : [parsed.username, parsed.password]
  return [...inHeaders, ...inUrl, ...ofUser].filter(({ length }) => length >= MIN_SECRET_CHARS)
}

function cookiesIn(header: string): string[] {
  return header.split(/;\s*/).map((pair) => pair.slice(pair.indexOf('=') + 1))
}

export class Redaction {
  readonly #spellings: readonly string[]
  readonly #redact: Redact

  constructor(secrets: readonly string[]) {
    this.#spellings = secretSpellings(secrets)
    this.#redact = redactingValues(this.#spellings)
  }

  headers(headers: HeaderFields): Record<string, string> {
    const entries = Object.entries(headers).map(([name, value]) => [
      name,
      isSecretName(name) ? REDACTED : this.#redact(value),
    ])
    return Object.fromEntries(entries) as Record<string, string>
  }

  url(text: string): string {
    const url = parseUrl(text)
    if (url === undefined) return this.#redact(text)
    if (url.username !== '' || url.password !== '') {
      url.username = REDACTED
      url.password = ''
    }
    for (const name of new Set(url.searchParams.keys())) {
      if (isSecretName(name)) url.searchParams.set(name, REDACTED)
    }
    return this.#redact(url.href)
  }

  /** Redacts a JSON value: credentials of tools that the provider calls, and every known secret. */
  json(value: unknown): unknown {
    if (typeof value === 'string') return this.#redact(value)
    if (Array.isArray(value)) return value.map((each) => this.json(each))
    if (!isRecord(value)) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, field]) => [name, this.#field(name, field)]),
    )
  }

  #field(name: string, value: unknown): unknown {
    if (name === 'headers' && isRecord(value)) {
      // Of a remote MCP server: any of them may be its key.
      return Object.fromEntries(Object.keys(value).map((each) => [each, REDACTED]))
    }
    if (typeof value !== 'string') return this.json(value)
    if (SECRET_FIELD.test(name)) return REDACTED
    return /^https?:\/\//i.test(value) && /url$/i.test(name) ? this.url(value) : this.#redact(value)
  }

  /** The body of a request: a JSON value, or text. */
  body(text: string): unknown {
    // Too deep to search for credentials.
    if (isNestedDeeperThan(text, MAX_JSON_NESTING)) return REDACTED
    try {
      return this.json(JSON.parse(text))
    } catch {
      return this.#redact(text) // not JSON, so it is recorded as text
    }
  }

  bytes(): ByteRedactor {
    return new ByteRedactor(this.#spellings)
  }
}

/** Redacts known secrets in bytes, also where a chunk ends inside one. */
export class ByteRedactor {
  readonly #values: readonly string[]
  readonly #redact: Redact
  /** The end of the last chunk, if a secret may start there. */
  #held = ''

  constructor(spellings: readonly string[]) {
    const encoder = new TextEncoder()
    this.#values = spellings.map((each) => toBinary(encoder.encode(each)))
    this.#redact = redactingValues(this.#values)
  }

  feed(chunk: Uint8Array): Uint8Array {
    if (this.#values.length === 0) return chunk
    const text = this.#redact(this.#held + toBinary(chunk))
    const end = text.length - this.#openChars(text)
    this.#held = text.slice(end)
    return fromBinary(text.slice(0, end))
  }

  end(): Uint8Array {
    const rest = this.#held
    this.#held = ''
    return fromBinary(rest)
  }

  /** How many characters at the end are the start of a secret. */
  #openChars(text: string): number {
    const longest = Math.min(text.length, (this.#values[0]?.length ?? 1) - 1)
    for (let length = longest; length > 0; length--) {
      const end = text.slice(-length)
      if (this.#values.some((value) => value.length > length && value.startsWith(end)))
        return length
    }
    return 0
  }
}
