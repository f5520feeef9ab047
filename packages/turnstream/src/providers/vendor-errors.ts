import type { VendorOptions } from '@turnstream/core/internal/formats/vendor-request'
import { type Redact, redacting } from '@turnstream/core/internal/protocol/redaction'
import type { ErrorObject } from '@turnstream/core/internal/protocol/stream-event'
import { parseUrl } from '@turnstream/core/internal/protocol/url'

// Vendor errors are stored and sent to readers. They may contain anything: the refused key, internal hosts, paths.

const MAX_MESSAGE_CHARS = 1000
const MAX_CODE_CHARS = 100

/** Private addresses and host names, with or without a port. */
const INTERNAL_HOST =
  /(?<![\w.-])(?:localhost|(?:10|127)(?:\.\d{1,3}){3}|(?:192\.168|169\.254|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2}|\[?::1\]?|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:internal|local|localdomain|lan|corp|intranet|svc|arpa))(?::\d{1,5})?(?![\w-])/gi

/** File system paths: `/usr/lib/…`, `C:\…`, `file:///…`. API paths look different. */
const FILE_PATH =
  /(?:\bfile:\/\/|(?<![\w/.:-])(?=\/(?:app|data|etc|home|mnt|opt|private|proc|root|run|srv|tmp|Users|usr|var|workspace)\/)|\b[A-Z]:(?=\\))[^\s"'<>()|,;]+/g

type Secrets = Pick<VendorOptions, 'apiKey' | 'baseUrl' | 'headers'>

export function concealing(options: Secrets): (error: ErrorObject) => ErrorObject {
  const redact = redacting(secretsOf(options))
  const hosts = hostsOf(options.baseUrl)
  return ({ code, message, ...rest }) => ({
    ...rest,
    code: conceal(code, redact, hosts).slice(0, MAX_CODE_CHARS),
    message: conceal(withoutQuote(code, message), redact, hosts).slice(0, MAX_MESSAGE_CHARS),
  })
}

function conceal(text: string, redact: Redact, hosts: RegExp | undefined): string {
  const named = hosts === undefined ? text : text.replace(hosts, INTERNAL)
  return redact(named).replace(INTERNAL_HOST, INTERNAL).replace(FILE_PATH, '[path]')
}

const INTERNAL = '[host]'

/** JSON parse errors quote the text, possibly half a secret. Removes all from the first quotation mark to the last. */
function withoutQuote(code: string, message: string): string {
  return code === 'UPSTREAM_MALFORMED' ? message.replace(/["'`].*["'`]/s, '…') : message
}

/** The key, headers whose names suggest a secret, and the host in any spelling. */
function secretsOf({ apiKey, baseUrl = '', headers = {} }: Secrets): string[] {
  const url = parseUrl(baseUrl)
  const hosts = url === undefined ? [] : [url.host, url.hostname]
  const values = Object.entries(headers)
    .filter(([name]) => /auth|key|token|secret|cookie/i.test(name))
    .flatMap(([, value]) => [value, value.replace(/^(?:bearer|basic)\s+/i, '')])
  return [...(apiKey === undefined ? [] : [apiKey]), ...values, ...hosts]
}

/** A host configured by the operator is private; the vendor's own is public. */
function hostsOf(baseUrl: string | undefined): RegExp | undefined {
  const url = parseUrl(baseUrl ?? '')
  if (url === undefined) return undefined
  const name = url.hostname.replaceAll(/[.[\]]/g, String.raw`\$&`)
  return new RegExp(String.raw`(?<![\w.-])${name}(?::\d{1,5})?(?![\w-])`, 'gi')
}
