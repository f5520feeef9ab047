import { type Redact, redacting } from '../protocol/redaction.ts'
import type { ErrorObject } from '../protocol/stream-event.ts'
import type { HttpProviderOptions } from './http-provider.ts'

/*
 * What goes wrong with a vendor is kept in the log of the turn and shown to whoever reads it. A vendor says
 * what it likes: the key that it did not accept, the machine behind it, where its program lies on the disk.
 */

const MAX_MESSAGE_CHARS = 1000
const MAX_CODE_CHARS = 100

/** Addresses and names of machines that nobody outside can reach, with a port or not. */
const INTERNAL_HOST =
  /(?<![\w.-])(?:localhost|(?:10|127)(?:\.\d{1,3}){3}|(?:192\.168|169\.254|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2}|\[?::1\]?|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:internal|local|localdomain|lan|corp|intranet|svc|arpa))(?::\d{1,5})?(?![\w-])/gi

/** Places on a disk: `/usr/lib/…`, `C:\…`, `file:///…`. Paths of an API begin otherwise. */
const FILE_PATH =
  /(?:\bfile:\/\/|(?<![\w/.:-])(?=\/(?:app|data|etc|home|mnt|opt|private|proc|root|run|srv|tmp|Users|usr|var|workspace)\/)|\b[A-Z]:(?=\\))[^\s"'<>()|,;]+/g

type Secrets = Pick<HttpProviderOptions, 'apiKey' | 'baseUrl' | 'headers'>

/** Changes errors of a vendor into what anybody may see of them. */
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

/**
 * Who cannot read JSON quotes some characters of it, in which no secret can be recognised: they may be half of
 * one. From the first quotation mark to the last, since there may be others in between.
 */
function withoutQuote(code: string, message: string): string {
  return code === 'UPSTREAM_MALFORMED' ? message.replace(/["'`].*["'`]/s, '…') : message
}

/** The key, the headers that hold one by their names, and the host, which may be written like them. */
function secretsOf({ apiKey, baseUrl = '', headers = {} }: Secrets): string[] {
  const hosts = URL.canParse(baseUrl) ? [new URL(baseUrl).host, new URL(baseUrl).hostname] : []
  const values = Object.entries(headers)
    .filter(([name]) => /auth|key|token|secret|cookie/i.test(name))
    .flatMap(([, value]) => [value, value.replace(/^(?:bearer|basic)\s+/i, '')])
  return [...(apiKey === undefined ? [] : [apiKey]), ...values, ...hosts]
}

/** The host that an operator has configured, which is nobody else's business; a vendor's own is known. */
function hostsOf(baseUrl: string | undefined): RegExp | undefined {
  if (baseUrl === undefined || !URL.canParse(baseUrl)) return undefined
  const { hostname } = new URL(baseUrl)
  const name = hostname.replaceAll(/[.[\]]/g, String.raw`\$&`)
  return new RegExp(String.raw`(?<![\w.-])${name}(?::\d{1,5})?(?![\w-])`, 'gi')
}
