import { HEADERS } from '../../protocol/names.ts'

/** The ways to say who asks, for the OpenAPI document. */
export const SECURITY_SCHEMES = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'A key, in `authorization`. Only where the server has keys; ignored elsewhere.',
  },
  apiKey: {
    type: 'apiKey',
    in: 'header',
    name: HEADERS.apiKey,
    description: 'The same key in a header of its own.',
  },
  streamToken: {
    type: 'apiKey',
    in: 'query',
    name: 'token',
    description: 'A stream token, for an `EventSource`: it reads one turn or one thread.',
  },
} as const

type SchemeName = keyof typeof SECURITY_SCHEMES

/** One of these is needed. */
export type Security = { [Name in SchemeName]?: string[] }[]

function oneOf(...names: SchemeName[]): Security {
  return names.map((name) => ({ [name]: [] }))
}

/** What holds for a route that does not say anything else. */
export const KEY_SECURITY: Security = oneOf('bearer', 'apiKey')

export const STREAM_SECURITY: Security = oneOf('bearer', 'apiKey', 'streamToken')

export const NO_SECURITY: Security = []
