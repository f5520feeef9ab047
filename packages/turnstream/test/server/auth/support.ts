/** Keys for tests, and calls with them. */
import { KeyRing, sha256Of } from '../../../src/server/auth/key-ring.ts'
import { type ServerOptions, startServer, type TestServer } from '../support.ts'

export const ACME = 'ts_the-key-of-acme'
export const OTHER = 'ts_the-key-of-umbrella'

export function entry(key: string, tenant = 'acme', name = 'web') {
  return { tenant, name, sha256: sha256Of(key) }
}

export interface GuardedServer extends TestServer {
  readonly keys: KeyRing
}

/** A server with two tenants, of one key each. */
export async function guardedServer(options: ServerOptions = {}): Promise<GuardedServer> {
  const keys = new KeyRing([entry(ACME), entry(OTHER, 'umbrella')])
  return { ...(await startServer({ keys, ...options })), keys }
}

export function withKey(key: string): { authorization: string } {
  return { authorization: `Bearer ${key}` }
}
