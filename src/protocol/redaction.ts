/** A text without the secrets that are in it. Never throws. */
export type Redact = (text: string) => string

/** Nobody reads more of a text than this, and nobody has to search it. */
const MAX_CHARS = 32_768

/** A secret may be cut in two where a text is. No token that can stand in a header line is longer. */
const MARGIN_CHARS = 4096

/** Shorter ones are no secrets, and blotting them out wherever they occur would tell them to everybody. */
const MIN_SECRET_CHARS = 4

/** What is left of shorter ones in base64 is too little to be told from anything else. */
const MIN_ENCODED_CHARS = 6

/**
 * Blots out these secrets, however they are written (as they are, in a URL, in JSON, in base64 as Basic
 * credentials are), and whatever else looks like a secret.
 */
export function redacting(secrets: readonly string[]): Redact {
  const known = [...new Set(secrets)].filter(({ length }) => length >= MIN_SECRET_CHARS)
  const spellings = [...new Set(known.flatMap(spellingsOf))]
  // The longest first: one may be part of another.
  const longestFirst = spellings.toSorted((a, b) => b.length - a.length)
  const margin = Math.max(MARGIN_CHARS, longestFirst[0]?.length ?? 0)
  const pattern =
    longestFirst.length === 0 ? undefined : new RegExp(longestFirst.map(escaped).join('|'), 'g')

  function blot(text: string): string {
    const byValue = pattern === undefined ? text : text.replace(pattern, REDACTED)
    return SECRET_SHAPES.reduce((rest, { pattern, kept }) => rest.replace(pattern, kept), byValue)
  }

  return (text) => {
    if (text.length <= MAX_CHARS + margin) return blot(text)
    // What the cut has left of a secret is in the margin, which goes.
    return `${blot(text.slice(0, MAX_CHARS + margin)).slice(0, -margin)}…`
  }
}

/** Blots out what looks like a secret, where none is known. */
export const redactShapes: Redact = redacting([])

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\/-]/g, String.raw`\$&`)
}

function spellingsOf(secret: string): string[] {
  return [secret, ...inUrls(secret), ...inJson(secret), ...inBase64(secret)]
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

/** Once, and once more for JSON that is a string in JSON. */
function inJson(secret: string): string[] {
  const once = JSON.stringify(secret).slice(1, -1)
  return [once, JSON.stringify(once).slice(1, -1)]
}

/**
 * What base64 makes of a secret depends on where in a group of three bytes it begins, which is not known:
 * `user:secret` shifts it. Of each of the three the part that depends on nothing else.
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

/*
 * What secrets look like, wherever they stand. None of these goes back over what it has read, so that a long
 * text costs as much as its length.
 */

interface SecretShape {
  readonly pattern: RegExp
  /** What stays of it. */
  readonly kept: string
}

export const REDACTED = '[redacted]'

/** A value as it stands in a header, a query or JSON; what ends it is not part of it. */
const VALUE = String.raw`[^\s"'\\,;&#<>(){}]+`

/** Words that follow the name of a scheme where no credentials do. */
const NO_CREDENTIALS = String.raw`(?!(?:authentication|authorization|credentials?)(?![\w.~+/=-]))`

/** Names of headers and parameters whose value is a secret. */
const HEADER_NAMES = 'authorization|proxy-authorization|x-api-key|x-goog-api-key|api-key'
const PARAMETER_NAMES =
  'token|key|api[_-]?key|access[_-]?token|refresh[_-]?token|client[_-]?secret|secret|password|passwd|sig|signature'

/** In the order in which they are looked for: those that tell most of their surroundings first. */
const SECRET_SHAPES: readonly SecretShape[] = [
  // `redis://user:password@host`
  { pattern: /:\/\/[^\s/?#"'<>]*@/g, kept: `://${REDACTED}@` },
  // `authorization: Bearer …`, `"x-api-key": "…"`
  {
    pattern: new RegExp(
      String.raw`\b(${HEADER_NAMES})(\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?)(?:(?:bearer|basic)\s{1,4})?${VALUE}`,
      'gi',
    ),
    kept: `$1$2${REDACTED}`,
  },
  // `set-cookie: a=b; c=d`
  {
    pattern: new RegExp(
      String.raw`\b((?:set-)?cookie)(\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?)${VALUE}(?:;\s?${VALUE})*`,
      'gi',
    ),
    kept: `$1$2${REDACTED}`,
  },
  // `Bearer …` alone
  {
    pattern: new RegExp(String.raw`\b(bearer|basic)\s{1,4}${NO_CREDENTIALS}[\w.~+/=-]{8,}`, 'gi'),
    kept: `$1 ${REDACTED}`,
  },
  // `?token=…`, `&key=…`
  {
    pattern: new RegExp(String.raw`([?&;](?:${PARAMETER_NAMES})=)${VALUE}`, 'gi'),
    kept: `$1${REDACTED}`,
  },
  // `"api_key":"…"`, also inside JSON that is itself a string
  {
    pattern: new RegExp(
      String.raw`(["'](?:${PARAMETER_NAMES})\\?["']\s{0,4}:\s{0,4}\\?["'])${VALUE}`,
      'gi',
    ),
    kept: `$1${REDACTED}`,
  },
  // Keys of ours, and those of vendors by what they begin with; some vendors repeat them with stars.
  {
    pattern:
      /(?:(?<!\w)|(?<=%[\dA-F]{2}))(?:ts_|sk-|gsk_|xai-|hf_|pplx-|nvapi-|AIza)[\w*.…-]{5,}[\w*]/gi,
    kept: REDACTED,
  },
  // A key that somebody has starred out in part
  { pattern: /(?<![\w*.-])[\w.-]{2,64}\*{3,}[\w.-]*/g, kept: REDACTED },
  // Signed tokens, of ours and of others: `v1.<base64url>.<base64url>`
  { pattern: /(?<![\w-])[\w-]+\.[\w-]{16,}\.[\w-]{16,}/g, kept: REDACTED },
]
