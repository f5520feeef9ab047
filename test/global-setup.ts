import { findCaddy, findNginx } from '../scripts/find-proxies.mjs'
import { installTestClients } from '../scripts/install-test-clients.mjs'
import { findRedis } from '../scripts/redis-server.mjs'

/** Before any test: what has to be fetched is fetched once, and what is missing is said once. */
export function setup(): void {
  findRedis()
  findNginx()
  findCaddy()
  installTestClients()
}
