import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { TOKEN_LIFETIME_MS } from '../../../src/server/routes/stream-tokens.ts'
import { KeyRing } from '../../../src/server.ts'
import { call, finishedTurn, readUntil, sealed, startServer } from '../support.ts'
import { ACME, entry, guardedServer, OTHER, withKey } from './support.ts'
import { open, SECRET, STREAMS, stage, tokenFor, type What } from './token-stage.ts'

describe('a token opens', () => {
  test.each<[string, What, string[]]>([
    ['a turn', { turnId: 'a1' }, ['/api/v2/stream/run-a1', '/xapi/turns/a1/stream']],
    [
      'a thread',
      { threadId: 'a' },
      [
        '/api/v2/stream/run-a1',
        '/api/v2/stream/run-a2',
        '/xapi/turns/a1/stream',
        '/xapi/turns/a2/stream',
        '/xapi/threads/a/stream',
      ],
    ],
  ])('%s, and nothing else', async (_name, what, opened) => {
    const server = await stage()
    const token = await tokenFor(server, what)
    const statuses = []
    for (const path of STREAMS) statuses.push([path, (await open(server, path, token)).status])
    expect(statuses).toEqual(STREAMS.map((path) => [path, opened.includes(path) ? 200 : 404]))
  })

  test('its thread among several, and tells of the others as of unknown ones', async () => {
    const server = await stage()
    const token = await tokenFor(server, { threadId: 'a' })
    const path = (threads: string) => `${server.url}/xapi/streams?${threads}&token=${token}`
    const { json } = await readUntil(path('threads=a&threads=b&threads=x'), '"threadId":"x"')
    expect(json).toMatch(/event: gone\ndata: [^\n]*"threadId":"b"/)
    expect((await fetch(path('threads=b'))).status).toBe(404)
  })

  test('nothing else: other resources look unknown', async () => {
    const server = await stage()
    const token = await tokenFor(server, { turnId: 'a1' })
    for (const [there, nowhere, ids] of [
      ['/api/v2/stream/run-b1', '/api/v2/stream/run-xx', ['run-b1', 'run-xx']],
      ['/xapi/turns/b1/stream', '/xapi/turns/xx/stream', ['b1', 'xx']],
      ['/xapi/threads/a/stream', '/xapi/threads/x/stream', [': a"', ': x"']],
    ] as const) {
      const [told, of] = [await open(server, there, token), await open(server, nowhere, token)]
      expect(told.status).toBe(404)
      expect(told.body).toContain(ids[0])
      expect({ ...told, body: told.body.replace(ids[0], ids[1]) }).toEqual(of)
    }
  })

  test.each(['a/b', 'ü', '🧵', '%', '%2F', '?', '#', '"', '&token=x', '...', '__proto__'])(
    'the streams of a turn named %j',
    async (id) => {
      const server = await guardedServer()
      const body = { prompt: 'Hi', turnId: id, threadId: id }
      await call(server, 'POST /api/v2/submit', { headers: withKey(ACME), body })
      await sealed(server.log.ofTenant('acme'), id)
      const token = await tokenFor(server, { threadId: id })
      const at = encodeURIComponent(id)
      for (const path of [
        `api/v2/stream/${at}`,
        `xapi/turns/${at}/stream`,
        `xapi/threads/${at}/stream`,
      ]) {
        expect([path, (await open(server, `/${path}`, token)).status]).toEqual([path, 200])
      }
    },
  )

  test('streams with an invalid cursor in the same order of errors', async () => {
    const server = await stage()
    const token = await tokenFor(server, { turnId: 'a1' })
    const codeOf = async (path: string) => {
      const { json } = await call(server, `GET ${path}?from=x&token=${token}` as `GET /${string}`)
      return json.error.code
    }
    expect(await codeOf('/xapi/turns/b1/stream')).toBe(await codeOf('/xapi/turns/xx/stream'))
    expect(await codeOf('/api/v2/stream/run-b1')).toBe(await codeOf('/api/v2/stream/run-xx'))
    expect(await codeOf('/xapi/threads/a/stream')).toBe(await codeOf('/xapi/threads/x/stream'))
  })

  test('only streams of its own tenant, although another has the same ids', async () => {
    const server = await stage()
    const theirs = { prompt: 'Theirs', turnId: 'a1', threadId: 'a' }
    await call(server, 'POST /api/v2/submit', { headers: withKey(OTHER), body: theirs })
    await sealed(server.log.ofTenant('umbrella'), 'a1')
    const token = await tokenFor(server, { turnId: 'a1' }, OTHER)
    const { json } = await readUntil(
      `${server.url}/xapi/turns/a1/stream?token=${token}`,
      'turn_complete',
    )
    expect(json).toContain('Theirs')
    expect((await open(server, '/api/v2/stream/run-a1', token)).status).toBe(404)
  })

  test('streams to their end, and resumes them', async () => {
    const server = await stage()
    const token = await tokenFor(server, { turnId: 'a1' })
    const url = `${server.url}/xapi/turns/a1/stream`
    const [byKey, byToken] = [
      await fetch(url, { headers: withKey(ACME) }),
      await fetch(`${url}?token=${token}`),
    ]
    expect(await byToken.text()).toBe(await byKey.text())
    const last = { 'last-event-id': '1-99' }
    expect((await fetch(`${url}?token=${token}`, { headers: last })).status).toBe(204)
  })

  test('nothing when the request also has a key: the key counts', async () => {
    const server = await stage()
    const token = await tokenFor(server, { turnId: 'a1' })
    const status = async (path: string, key: string) =>
      (await fetch(`${server.url}${path}`, { headers: withKey(key) })).status
    expect(await status(`/xapi/turns/b1/stream?token=${token}`, ACME)).toBe(200)
    expect(await status('/xapi/turns/b1/stream?token=forged', ACME)).toBe(200)
    expect(await status(`/xapi/turns/a1/stream?token=${token}`, OTHER)).toBe(404)
    expect(await status(`/xapi/turns/a1/stream?token=${token}`, 'ts_no')).toBe(401)
  })
})

describe('a token is refused', () => {
  test.each<[string, (token: string) => string]>([
    ['forged', (token) => `${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`],
    ['empty', () => ''],
    ['the key itself', () => ACME],
    ['of 3,000 characters', () => 'x'.repeat(3000)],
    ['with NUL', (token) => `${token}%00`],
    ['that is not UTF-8', () => '%ff'],
    ['second after a forged one', (token) => `x&token=${token}`],
  ])('that is %s', async (_name, forge) => {
    const server = await stage()
    const token = await tokenFor(server, { turnId: 'a1' })
    const answer = await call(server, `GET /xapi/turns/a1/stream?token=${forge(token)}`)
    expect([answer.status, answer.json.error.code]).toEqual([401, 'TOKEN_INVALID'])
    expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="turnstream"')
    expect(JSON.stringify(answer.json)).not.toContain(token.slice(0, 20))
  })

  test('after five minutes, while open streams stay open', async () => {
    const clock = fakeClock(1_700_000_000_000)
    const server = await guardedServer({ clock })
    const next = server.held.nextCall()
    const body = { prompt: 'Hi', turnId: 't', providerId: 'held' }
    await call(server, 'POST /api/v2/submit', { headers: withKey(ACME), body })
    const provider = await next
    const token = await tokenFor(server, { turnId: 't' })
    const url = `${server.url}/xapi/turns/t/stream?token=${token}`
    const reading = await fetch(url)
    await clock.advance(TOKEN_LIFETIME_MS)
    const late = await call(server, `GET /xapi/turns/t/stream?token=${token}`)
    expect([late.status, late.json.error.code]).toEqual([401, 'TOKEN_EXPIRED'])
    provider.say('still here')
    provider.finish()
    expect(await reading.text()).toContain('still here')
  })

  test('when its key is revoked, whatever other keys the tenant has', async () => {
    const server = await stage()
    const token = await tokenFor(server, { turnId: 'a1' })
    server.keys.replace([entry('ts_new', 'acme', 'other')])
    const { status, json } = await call(server, `GET /xapi/turns/a1/stream?token=${token}`)
    expect([status, json.error.code]).toEqual([401, 'TOKEN_INVALID'])
  })

  test('when another key takes the name of its key at the same moment', async () => {
    const server = await stage()
    const token = await tokenFor(server, { turnId: 'a1' })
    server.keys.replace([entry('ts_new', 'acme', 'web')])
    const { status, json } = await call(server, `GET /xapi/turns/a1/stream?token=${token}`)
    expect([status, json.error.code]).toEqual([401, 'TOKEN_INVALID'])
    server.keys.replace([entry(ACME)])
    expect((await open(server, '/xapi/turns/a1/stream', token)).status).toBe(200)
  })

  test('when it was created without keys', async () => {
    const open = await startServer({ streamTokenSecret: SECRET })
    await finishedTurn(open, { turnId: 't' })
    const { json } = await call(open, 'POST /api/v2/stream-tokens', { body: { turnId: 't' } })
    const keys = new KeyRing([entry(ACME, 'default', 'anybody')])
    const server = await startServer({ log: open.log, keys, streamTokenSecret: SECRET })
    const { status } = await call(server, `GET /xapi/turns/t/stream?token=${json.token}`)
    expect(status).toBe(401)
  })

  test('by a server with another secret', async () => {
    const server = await stage({ streamTokenSecret: SECRET })
    const token = await tokenFor(server, { turnId: 'a1' })
    const { log, keys } = server
    const same = await startServer({ log, keys, streamTokenSecret: SECRET })
    const other = await startServer({ log, keys })
    const path = '/xapi/turns/a1/stream'
    expect((await open(same, path, token)).status).toBe(200)
    expect((await open(other, path, token)).status).toBe(401)
  })

  test('a secret that is too short is refused at startup', async () => {
    await expect(startServer({ streamTokenSecret: 'short' })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    })
  })
})
