import { describe, expect, test, vi } from 'vitest'
import { hostNameOf } from '../../../src/server/web/origins.ts'
import { sendRaw } from '../raw-http.ts'
import { gatewayOn, openLog } from '../streams/server.ts'
import { startServer } from '../support.ts'
import { ask } from './browser.ts'

// Many requests in one test, on a machine that runs everything else at the same time.
vi.setConfig({ testTimeout: 30_000 })

const NAMES = ['localhost', '127.0.0.1', '::1', 'Turns.Example']

describe('a listed name', () => {
  test.each([
    ['localhost', 'localhost'],
    ['LocalHost', 'localhost'],
    ['localhost.', 'localhost'],
    ['127.0.0.1', '127.0.0.1'],
    ['::1', '[::1]'],
    ['[::1]', '[::1]'],
    ['::', '[::]'],
    ['bücher.example', 'xn--bcher-kva.example'],
  ])('%s is %s in a URL', (written, name) => {
    expect(hostNameOf(written)).toBe(name)
  })

  test.each([
    '',
    '*',
    '*.example',
    'a b',
    'a/b',
    'a?b',
    'a#b',
    'u@a',
    'a:80',
    'a:4010',
    '[::1]:80',
    'http://a',
    'a\\b',
    '1.2.3.4.5',
    ':::',
  ])('%j is invalid', async (written) => {
    expect(hostNameOf(written)).toBeUndefined()
    const log = await openLog()
    expect(() => gatewayOn(log, { allowedHosts: [written] })).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }),
    )
  })
})

describe('with allowed hosts', () => {
  test.each([
    'localhost',
    'localhost:1',
    'LOCALHOST',
    'localhost.',
    'localhost.:80',
    '127.0.0.1:4010',
    '[::1]',
    '[::1]:4010',
    'turns.example',
    'TURNS.example:443',
  ])('%s is answered', async (host) => {
    const { url } = await startServer({ allowedHosts: NAMES })
    expect((await ask(`${url}/api/v2/threads`, { headers: { host } })).status).toBe(200)
  })

  test.each([
    'evil.example',
    'evil.example:4010',
    'localhost.evil.example',
    'localhost..',
    'evil-localhost',
    '127.0.0.1.evil.example',
    '127.0.0.2',
    '[::2]',
    'a',
    '__proto__',
  ])('%s is HOST_REFUSED on every route except probes', async (host) => {
    const { url, errors } = await startServer({ allowedHosts: NAMES })
    const headers = { host }
    for (const path of ['/api/v2/threads', '/xapi/turns/t/stream', '/docs', '/', '/nowhere']) {
      const { status, code, text } = await ask(`${url}${path}`, { headers })
      expect([path, status, code]).toEqual([path, 421, 'HOST_REFUSED'])
      expect(text).toContain('allowedHosts')
    }
    const posted = await ask(`${url}/api/v2/submit`, {
      ...{ method: 'POST', body: '{"prompt":"Hi"}' },
      headers: { host, 'content-type': 'application/json' },
    })
    expect([posted.status, posted.code]).toEqual([421, 'HOST_REFUSED'])
    for (const path of ['/healthz', '/readyz']) {
      expect((await ask(`${url}${path}`, { headers })).status).toBe(200)
    }
    expect(errors).toEqual([])
  })

  test('a DNS rebinding page gets nothing, whatever origin it claims', async () => {
    const { url } = await startServer({ allowedHosts: NAMES })
    // To the browser this is one origin.
    const headers = { host: 'rebound.example:4010', origin: 'http://rebound.example:4010' }
    for (const site of ['same-origin', 'none']) {
      const { code } = await ask(`${url}/api/v2/threads`, {
        headers: { ...headers, 'sec-fetch-site': site },
      })
      expect(code).toBe('HOST_REFUSED')
    }
  })

  test('an absolute URL is judged by its own host', async () => {
    const { url } = await startServer({ allowedHosts: NAMES })
    const get = (address: string, host: string) =>
      sendRaw(url, `GET ${address} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`)
    expect((await get('http://evil.example/api/v2/threads', 'localhost')).status).toBe(421)
    expect((await get('http://localhost/api/v2/threads', 'evil.example')).status).toBe(200)
  })
})

test('every name is answered without a list', async () => {
  const { url } = await startServer()
  for (const host of ['evil.example', 'localhost', '[::1]']) {
    expect((await ask(`${url}/api/v2/threads`, { headers: { host } })).status).toBe(200)
  }
})

test('a request with two hosts is refused, even if one is allowed', async () => {
  const server = await startServer({ allowedHosts: NAMES })
  const hosts = [
    'host: localhost\r\nhost: evil.example',
    'host: evil.example\r\nhost: localhost',
    'host: localhost\r\nHost: localhost',
    'host: localhost, evil.example',
  ]
  for (const lines of hosts) {
    const head = `GET /api/v2/threads HTTP/1.1\r\n${lines}\r\nconnection: close\r\n\r\n`
    const got = await sendRaw(server.url, head)
    expect([lines, got.status]).toEqual([lines, 400])
    expect(JSON.parse(got.body)).toMatchObject({ error: { code: 'REQUEST_INVALID' } })
  }
  expect(server.errors).toEqual([])
})

test('an empty list allows no name', async () => {
  const { url } = await startServer({ allowedHosts: [] })
  expect((await ask(`${url}/api/v2/threads`)).status).toBe(421)
  expect((await ask(`${url}/healthz`)).status).toBe(200)
})

test.each(['1.2.3.4.5', '999.999.999.999', '0x', '1.2.3.256', '-.'])(
  'the invalid host %s is not an internal error',
  async (host) => {
    const server = await startServer()
    for (const path of ['/docs', '/api/v2/threads', '/']) {
      const { status, code } = await ask(`${server.url}${path}`, { headers: { host } })
      expect([200, 302, 400]).toContain(status)
      if (status === 400) expect(code).toBe('REQUEST_INVALID')
    }
    const body = '{"prompt":"Hi"}'
    const headers = { host, 'content-type': 'application/json' }
    const posted = await ask(`${server.url}/api/v2/submit`, { method: 'POST', headers, body })
    expect([202, 400]).toContain(posted.status)
    expect(server.errors).toEqual([])
  },
)
