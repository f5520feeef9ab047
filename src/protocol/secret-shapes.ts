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
export const SECRET_SHAPES: readonly SecretShape[] = [
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
