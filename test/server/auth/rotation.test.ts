import { expect, test } from 'vitest'
import { call, sealed } from '../support.ts'
import { ACME, entry, guardedServer, OTHER, withKey } from './support.ts'

const NEXT = 'ts_the-next-key-of-acme'

test('keys change while turns run and streams are open, and nothing is dropped', async () => {
  const server = await guardedServer()
  const { held, keys, log, url } = server
  const next = held.nextCall()
  const body = { prompt: 'Hi', turnId: 't', providerId: 'held' }
  await call(server, 'POST /api/v2/submit', { headers: withKey(ACME), body })
  const provider = await next
  const token = await call(server, 'POST /api/v2/stream-tokens', {
    headers: withKey(ACME),
    body: { turnId: 't' },
  })
  const path = '/xapi/turns/t/stream' as const
  const readers = await Promise.all([
    fetch(`${url}${path}`, { headers: withKey(ACME) }),
    fetch(`${url}/api/v2/stream/t`, { headers: withKey(ACME) }),
    fetch(`${url}${path}?token=${token.json.token}`),
  ])
  expect(readers.map(({ status }) => status)).toEqual([200, 200, 200])

  keys.replace([entry(NEXT, 'acme', 'next'), entry(OTHER, 'umbrella')])
  for (const key of [ACME, NEXT, OTHER]) {
    const { status, json } = await call(server, 'GET /xapi/turns/t', { headers: withKey(key) })
    expect([key, status, json.error?.code]).toEqual(
      key === NEXT ? [key, 200, undefined] : [key, key === OTHER ? 404 : 401, expect.any(String)],
    )
  }
  const stale = await call(server, `GET ${path}?token=${token.json.token}`)
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

test('whatever moment they change in, a request has the old key or the new one', async () => {
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
