import { TurnstreamError } from '../../protocol/errors.ts'

/** The entry that stands for every origin. */
export const ANY_ORIGIN = '*'

// Scheme, host and perhaps a port. Apps have schemes of their own: capacitor://localhost.
const ORIGIN = /^[a-z][a-z\d+.-]*:\/\/(?:[^\s/?#@:*\\[\]]+|\[[\da-f:.]+\])(?::\d{1,5})?$/i

/** The origins whose pages may use the API. */
export class AllowedOrigins {
  readonly isEmpty: boolean
  /** Every page may ask, and needs a key. */
  readonly isOpen: boolean
  readonly #origins: ReadonlySet<string>

  /** OPTION_INVALID for what is no origin, and where every page could ask without a key. */
  constructor(written: readonly string[], { hasKeys }: { readonly hasKeys: boolean }) {
    this.isOpen = written.includes(ANY_ORIGIN)
    this.isEmpty = written.length === 0
    if (this.isOpen && written.length > 1) throw invalid('* is every origin, and stands alone')
    if (this.isOpen && !hasKeys) {
      throw invalid('* would let every page use a server that asks for no key; name the origins')
    }
    this.#origins = new Set(this.isOpen ? [] : written.map(checkedOrigin))
  }

  /** The origin is that of a request, which browsers write in one way only. */
  has(origin: string): boolean {
    return this.isOpen || this.#origins.has(origin)
  }
}

/** An origin as browsers write it: in lower case, and without the usual port. */
export function originOf(written: string): string | undefined {
  if (!ORIGIN.test(written) || !URL.canParse(written)) return undefined
  const { origin } = new URL(written)
  // That of a scheme which is not the web's has no form that all agree on.
  return origin === 'null' ? written.toLowerCase() : origin
}

function checkedOrigin(written: string): string {
  const origin = originOf(written)
  if (origin !== undefined) return origin
  const shown = JSON.stringify(written.slice(0, 100))
  throw invalid(
    `an origin is a scheme, a host and perhaps a port: https://app.example, not ${shown}`,
  )
}

function invalid(detail: string): TurnstreamError {
  return new TurnstreamError('OPTION_INVALID', `corsOrigins: ${detail}`)
}

/** Whether an origin is the one that a request was sent to, as far as its `host` tells. */
export function isOwnOrigin(origin: string, host: string): boolean {
  if (!URL.canParse(origin)) return false
  const own = new URL(origin)
  // What ends TLS before us is not told apart: the name and the port are the same.
  const usual = own.protocol === 'https:' ? '443' : '80'
  return own.host === host || (own.port === '' && `${own.host}:${usual}` === host)
}
