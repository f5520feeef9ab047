import type { MiddlewareHandler } from 'hono'
import type { GatewayEnv } from '../context.ts'
import { crossOrigin } from './cross-origin.ts'
import { addressed } from './hosts.ts'
import { AllowedOrigins } from './origins.ts'

export interface WebGuardOptions {
  readonly corsOrigins?: readonly string[]
  readonly allowedHosts?: readonly string[]
  /** Whether whoever asks needs a key. */
  readonly hasKeys: boolean
}

/** What stands between web pages and the API, before anybody is asked who they are. */
export function webGuards(options: WebGuardOptions): MiddlewareHandler<GatewayEnv>[] {
  const { corsOrigins = [], allowedHosts, hasKeys } = options
  return [addressed(allowedHosts), crossOrigin(new AllowedOrigins(corsOrigins, { hasKeys }))]
}
