import { expect, test, vi } from 'vitest'
import { KeyRing } from '../../../src/server.ts'
import { call, sealed, type TestServer } from '../support.ts'
import { ACME, entry, guardedServer, OTHER, withKey } from './support.ts'
import { tokenFor } from './token-stage.ts'

const NEXT = 'ts_the-next-key-of-acme'

const PATH = '/xapi/turns/t/stream'

/** A turn of Acme that runs, whoever reads it, and a token for it. */
async function runningTurn() {
  const server = await guardedServer()
  const next = server.held.nextCall()
  const body = { prompt: 'Hi', turnId: 't', threadId: 'h', providerId: 'held' }
  await call(server, 'POST /api/v2/submit', { headers: withKey(ACME), body })
  return { server, provider: await next, token: await tokenFor(server, { threadId: 'h' }) }
}

/** All kinds of streams, with a key and with a token. */
function openAll({ url }: TestServer, key: string, token: string): Promise<Response[]> {
  const headers = withKey(key)
  return Promise.all([
    fetch(`${url}${PATH}`, { headers }),
    fetch(`${url}/api/v2/stream/t`, { headers }),
    fetch(`${url}/xapi/threads/h/stream`, { headers }),
    fetch(`${url}${PATH}?token=${token}`),
    fetch(`${url}/api/v2/stream/t?token=${token}`),
    fetch(`${url}/xapi/threads/h/stream?token=${token}`),
  ])
}

test('keys change while turns run and streams are open, and nothing else is dropped', async () => {
  const { server, provider, token } = await runningTurn()
  const { keys, log, url } = server
  const kept = entry(NEXT, 'acme', 'next')
  keys.replace([entry(ACME), kept, entry(OTHER, 'umbrella')])
  const own = await tokenFor(server, { turnId: 't' }, NEXT)
  const readers = await Promise.all([
    fetch(`${url}${PATH}`, { headers: withKey(NEXT) }),
    fetch(`${url}/api/v2/stream/t`, { headers: withKey(NEXT) }),
    fetch(`${url}${PATH}?token=${own}`),
  ])
  expect(readers.map(({ status }) => status)).toEqual([200, 200, 200])

  keys.replace([kept, entry(OTHER, 'umbrella')])
  for (const key of [ACME, NEXT, OTHER]) {
    const { status, json } = await call(server, 'GET /xapi/turns/t', { headers: withKey(key) })
    expect([key, status, json.error?.code]).toEqual(
      key === NEXT ? [key, 200, undefined] : [key, key === OTHER ? 404 : 401, expect.any(String)],
    )
  }
  const stale = await call(server, `GET ${PATH}?token=${token}`)
  expect([stale.status, stale.json.error.code]).toEqual([401, 'TOKEN_INVALID'])

  provider.say('said after the change')
  provider.finish()
  await sealed(log.ofTenant('acme'), 't')
  const texts = await Promise.all(readers.map((reader) => reader.text()))
  for (const text of texts) {
    expect(text).toContain('said after the change')
    expect(text).toMatch(/"type":"(turn_complete|response_done)"/)
  }
  expect(server.errors).toEqual([])
})

test.each([
  ['is revoked', [entry(OTHER, 'umbrella')]],
  ['gives its name to another', [entry(NEXT), entry(OTHER, 'umbrella')]],
])('when a key %s its streams are cut and its turns continue', async (_how, left) => {
  const { server, provider, token } = await runningTurn()
  const { keys, log, gateway } = server
  const readers = await openAll(server, ACME, token)
  expect(readers.map(({ status }) => status)).toEqual(readers.map(() => 200))
  keys.replace(left)
  for (const reader of readers) await expect(reader.text()).rejects.toThrow('terminated')
  expect(gateway.turns.running).toBe(1)
  for (const { status } of await openAll(server, ACME, token)) expect(status).toBe(401)
  provider.finish()
  await sealed(log.ofTenant('acme'), 't')
  expect((await log.ofTenant('acme').getTurn('t'))?.status).toBe('complete')
  expect(server.errors).toEqual([])
})

test('a stream that is opening when its key is revoked is refused', async () => {
  const { server, token } = await runningTurn()
  const { keys, log, url } = server
  const tenant = log.ofTenant('acme')
  const getTurn = vi.spyOn(tenant, 'getTurn')
  for (const [query, code] of [
    ['', 'KEY_INVALID'],
    [`?token=${token}`, 'TOKEN_INVALID'],
  ] as const) {
    getTurn.mockImplementationOnce((turnId) => {
      keys.replace([])
      return tenant.getTurn(turnId)
    })
    const headers = query === '' ? withKey(ACME) : {}
    const { status, json, ...refused } = await call(server, `GET ${PATH}${query}`, { headers })
    expect([status, json.error.code]).toEqual([401, code])
    expect(refused.headers.get('www-authenticate')).toBe('Bearer realm="turnstream"')
    keys.replace([entry(ACME)])
  }
  const reader = await fetch(`${url}${PATH}`, { headers: withKey(ACME) })
  expect(reader.status).toBe(200)
  await reader.body?.cancel()
})

test('a closed server ignores changes of its keys', async () => {
  const keys = new KeyRing([entry(ACME)])
  const forget = vi.fn<() => void>()
  vi.spyOn(keys, 'onReplace').mockReturnValue(forget)
  const server = await guardedServer({ keys })
  expect(forget).not.toHaveBeenCalled()
  await server.close()
  expect(forget).toHaveBeenCalledOnce()
})

test('every request during a change uses either the old key or the new one', async () => {
  const server = await guardedServer()
  const { keys, url } = server
  const statusOf = async (key: string) => {
    const response = await fetch(`${url}/api/v2/threads`, { headers: withKey(key) })
    await response.text()
    return response.status
  }
  const old = [entry(ACME), entry(OTHER, 'umbrella')]
  const fresh = [entry(NEXT), entry(OTHER, 'umbrella')]
  for (let round = 0; round < 20; round++) {
    const asked = Promise.all([statusOf(OTHER), statusOf(ACME), statusOf(OTHER), statusOf(NEXT)])
    keys.replace(round % 2 === 0 ? fresh : old)
    const [one, first, two, second] = await asked
    // Who is in both is never refused; the others are let in or not, and never fail otherwise.
    expect([one, two]).toEqual([200, 200])
    expect([200, 401]).toContain(first)
    expect([200, 401]).toContain(second)
  }
  keys.replace(fresh)
  expect([await statusOf(ACME), await statusOf(NEXT)]).toEqual([401, 200])
  expect(server.errors).toEqual([])
})
