/** Readiness of a server whose providers run processes. */

import { expect, test } from 'vitest'
import { createScriptedProvider } from '../../src/index.ts'
import { type ProcessHealth, Providers } from '../../src/server.ts'
import { call, startServer } from './support.ts'

const HEALTH = { threads: 0, turns: 0, restarts: 0, recycles: 0, lastError: '/secret/path' }

/** Two providers, of which one runs a process. */
async function start(order: readonly ('codex' | 'plain')[]) {
  const plain = createScriptedProvider({ id: 'plain', recordings: {} })
  const health: { state: ProcessHealth['state'] } = { state: 'idle' }
  const codex = {
    id: 'codex',
    stream: plain.stream.bind(plain),
    get health() {
      return { ...HEALTH, ...health }
    },
  }
  const configured = order.map((id) => (id === 'codex' ? codex : plain))
  const providers = new Providers(configured.map((provider) => ({ provider, defaultModel: 'm' })))
  return { health, server: await startServer({ providers }) }
}

test('a server without such providers only reports that it is ready', async () => {
  expect((await call(await startServer(), 'GET /readyz')).json).toEqual({ status: 'ok' })
})

test('a server is not ready while the process of its default provider cannot start', async () => {
  const { health, server } = await start(['codex', 'plain'])
  for (const state of ['idle', 'running'] as const) {
    health.state = state
    const { json } = await call(server, 'GET /readyz')
    expect(json).toEqual({ status: 'ok', processes: { codex: state } })
  }
  health.state = 'failing'
  const { status, json } = await call(server, 'GET /readyz')
  expect([status, json.error.code]).toEqual([502, 'UPSTREAM_UNREACHABLE'])
  expect(JSON.stringify(json)).not.toContain(HEALTH.lastError)
  health.state = 'running'
  expect((await call(server, 'GET /readyz')).status).toBe(200)
})

test('the process of another provider is only reported', async () => {
  const { health, server } = await start(['plain', 'codex'])
  health.state = 'failing'
  const { json } = await call(server, 'GET /readyz')
  expect(json).toEqual({ status: 'ok', processes: { codex: 'failing' } })
})
