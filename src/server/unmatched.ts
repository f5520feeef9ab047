import type { Context } from 'hono'
import { TurnstreamError } from '../protocol/errors.ts'
import type { GatewayApp, GatewayContext, GatewayEnv } from './context.ts'
import { refuse } from './error-response.ts'

interface KnownPath {
  readonly pattern: RegExp
  readonly methods: readonly string[]
}

/**
 * What is answered when no route fits: the methods of the path, if it has any, to whoever asks for them
 * with OPTIONS or used another one. To be called when the app has all its routes.
 */
export function unmatched(app: GatewayApp, { onError }: GatewayContext) {
  const paths = knownPaths(app)
  return (c: Context<GatewayEnv>): Response => {
    const { method, path } = c.req
    const known = paths.find(({ pattern }) => pattern.test(path))
    if (known === undefined) {
      return refuse(c, new TurnstreamError('ROUTE_UNKNOWN', path.slice(0, 200)), onError)
    }
    c.header('allow', known.methods.join(', '))
    if (method === 'OPTIONS') return c.body(null, 204)
    return refuse(c, new TurnstreamError('METHOD_NOT_ALLOWED', method), onError)
  }
}

function knownPaths(app: GatewayApp): KnownPath[] {
  const methods = new Map<string, Set<string>>()
  for (const { path, method } of app.routes) {
    // Middleware is a route of all methods.
    if (method === 'ALL') continue
    const known = methods.get(path) ?? new Set()
    methods.set(path, known.add(method))
    if (method === 'GET') known.add('HEAD')
  }
  return [...methods].map(([path, known]) => ({
    pattern: patternOf(path),
    methods: [...known, 'OPTIONS'].toSorted(),
  }))
}

function patternOf(path: string): RegExp {
  const escaped = path.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
  return new RegExp(`^${escaped.replaceAll(/:\w+/g, '[^/]+')}$`)
}
