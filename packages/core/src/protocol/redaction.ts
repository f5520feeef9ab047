/** Returns a text without its secrets. Never throws. */
export type Redact = (text: string) => string

/** Longer texts are cut: searching them takes time. */
const MAX_CHARS = 32_768

/** The cut may split a secret. No token in a header line is longer than this. */
const MARGIN_CHARS = 4096

/** Shorter values are not secrets. Redacting every occurrence of them would reveal them. */
const MIN_SECRET_CHARS = 4

/** What base64 leaves of shorter secrets is too little to recognise. */
const MIN_ENCODED_CHARS = 6

/** Redacts these secrets in every spelling (plain, URL, JSON, base64), and what looks like a secret. */
export function redacting(secrets: readonly string[]): Redact {
  const spellings = secretSpellings(secrets)
  const margin = Math.max(MARGIN_CHARS, spellings[0]?.length ?? 0)
  const redactValues = redactingValues(spellings)

  function blot(text: string): string {
    const byValue = redactValues(text)
    return SECRET_SHAPES.reduce((rest, [pattern, by]) => rest.replace(pattern, by), byValue)
  }

  return (text) => {
    if (text.length <= MAX_CHARS + margin) return blot(text)
    // The remainder of a split secret is within the margin, which is removed.
    return `${blot(text.slice(0, MAX_CHARS + margin)).slice(0, -margin)}…`
  }
}

/** Returns how secrets may be spelled in a text. Longest first: one may be part of another. */
export function secretSpellings(secrets: readonly string[]): string[] {
  const known = [...new Set(secrets)].filter(({ length }) => length >= MIN_SECRET_CHARS)
  const spellings = known.flatMap((secret) => [
    secret,
    ...inUrls(secret),
    ...inJson(secret),
    ...inBase64(secret),
  ])
  return [...new Set(spellings)].toSorted((a, b) => b.length - a.length)
}

/** Redacts exactly these texts, in a text of any length. */
export function redactingValues(values: readonly string[]): Redact {
  if (values.length === 0) return (text) => text
  const pattern = new RegExp(values.map(escaped).join('|'), 'g')
  return (text) => text.replace(pattern, REDACTED)
}

/** Redacts what looks like a secret, without knowing any. */
export const redactShapes: Redact = redacting([])

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\/-]/g, String.raw`\$&`)
}

function inUrls(secret: string): string[] {
  try {
    const upper = encodeURIComponent(secret)
    const lower = upper.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())
    return [upper, lower, upper.replaceAll('%20', '+')]
  } catch {
    return [] // half a pair of surrogates cannot stand in a URL
  }
}

/** Escaped once, and twice for JSON inside a JSON string. */
function inJson(secret: string): string[] {
  const once = JSON.stringify(secret).slice(1, -1)
  return [once, JSON.stringify(once).slice(1, -1)]
}

/**
 * The base64 of a secret depends on its position within a group of three bytes, which is unknown:
 * `user:secret` shifts it. Returns, for each of the three positions, the part that depends on nothing else.
 */
function inBase64(secret: string): string[] {
  const bytes = new TextEncoder().encode(secret)
  const texts = [0, 1, 2].map((shift) => {
    const shifted = [...Array<number>(shift).fill(0), ...bytes]
    const whole = btoa(shifted.map((byte) => String.fromCharCode(byte)).join(''))
    return whole.slice(Math.ceil((shift * 8) / 6), Math.floor((shifted.length * 8) / 6))
  })
  return texts
    .filter(({ length }) => length >= MIN_ENCODED_CHARS)
    .flatMap((text) => [text, text.replaceAll('+', '-').replaceAll('/', '_')])
}

/** None of the patterns of secrets backtracks, so the cost is linear in the length of the text. */

export const REDACTED = '[redacted]'

/** A value in a header, a query or JSON, without its delimiter. */
const VALUE = String.raw`[^\s"'\\,;&#<>(){}]+`

/** Words that follow a scheme name where there are no credentials. */
const NO_CREDENTIALS = String.raw`(?!(?:authentication|authorization|credentials?)(?![\w.~+/=-]))`

/** Names of headers and parameters whose values are secrets. */
const HEADER_NAMES = 'authorization|proxy-authorization|x-api-key|x-goog-api-key|api-key'
const PARAMETER_NAMES =
  'token|key|api[_-]?key|access[_-]?token|refresh[_-]?token|client[_-]?secret|secret|password|passwd|sig|signature'

/** Between the name of a header and its value, also in JSON. */
const ASSIGNED = String.raw`\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?`

/** Patterns and their replacements, in matching order: those with the most context come first. */
const SECRET_SHAPES: readonly [pattern: RegExp, by: string][] = [
  // `redis://user:password@host`
  [/:\/\/[^\s/?#"'<>]*@/g, `://${REDACTED}@`],
  // `authorization: Bearer …`, `"x-api-key": "…"`
  inContext(String.raw`\b((?:${HEADER_NAMES})${ASSIGNED})(?:(?:bearer|basic)\s{1,4})?${VALUE}`),
  // `set-cookie: a=b; c=d`
  inContext(String.raw`\b((?:set-)?cookie${ASSIGNED})${VALUE}(?:;\s?${VALUE})*`),
  // `Bearer …` alone
  [
    new RegExp(String.raw`\b(bearer|basic)\s{1,4}${NO_CREDENTIALS}[\w.~+/=-]{8,}`, 'gi'),
    `$1 ${REDACTED}`,
  ],
  // `?token=…`, `&key=…`
  inContext(String.raw`([?&;](?:${PARAMETER_NAMES})=)${VALUE}`),
  // `"api_key":"…"`, also inside JSON that is itself a string
  inContext(String.raw`(["'](?:${PARAMETER_NAMES})\\?["']\s{0,4}:\s{0,4}\\?["'])${VALUE}`),
  // Our keys, and vendors' keys by prefix. Some vendors repeat them masked with asterisks.
  [
    /(?:(?<!\w)|(?<=%[\dA-F]{2}))(?:ts_|sk-|gsk_|xai-|hf_|pplx-|nvapi-|AIza)[\w*.…-]{5,}[\w*]/gi,
    REDACTED,
  ],
  // A partly masked key
  [/(?<![\w*.-])[\w.-]{2,64}\*{3,}[\w.-]*/g, REDACTED],
  // Signed tokens, ours and others': `v1.<base64url>.<base64url>`
  [/(?<![\w-])[\w-]+\.[\w-]{16,}\.[\w-]{16,}/g, REDACTED],
]

/** The first group stays. */
function inContext(pattern: string): [RegExp, string] {
  return [new RegExp(pattern, 'gi'), `$1${REDACTED}`]
}
