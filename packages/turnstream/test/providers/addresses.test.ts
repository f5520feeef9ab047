/** Where vendors are called: where their options say, whatever a request says and wherever a vendor points. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { checkBaseUrl, isBaseUrl } from '../../../core/src/formats/vendor-request.ts'
import type { ProviderRequest, StreamEvent } from '../../../core/src/index.ts'
import { VENDORS } from '../../../core/test/formats/vendors.ts'
import { collect, collectWith, last, request, run } from './http-support.ts'
import { type Answer, startVendor } from './vendor-server.ts'

const KEY = 'planted-key'

/** A server that keeps the lines and headers of what it is asked. */
async function listener(answer: Answer) {
  const calls: { path: string; host: string; key: boolean }[] = []
  const server = await startVendor((response, incoming, count) => {
    calls.push({
      path: incoming.url ?? '',
      host: incoming.headers.host ?? '',
      key: JSON.stringify(incoming.headers).includes(KEY),
    })
    return answer(response, incoming, count)
  })
  onTestFinished(() => server.close())
  return { url: server.url, host: new URL(server.url).host, calls }
}

const refuse: Answer = (response) => {
  response.writeHead(400).end('no')
}

describe('a redirect is not followed, and the key is sent nowhere else:', () => {
  const STATUSES = [300, 301, 302, 303, 305, 307, 308]
  const rows = Object.keys(VENDORS).flatMap((id) => STATUSES.map((status) => ({ id, status })))

  test.each(rows)('$id with status $status', async ({ id, status }) => {
    const other = await listener(refuse)
    const vendor = await listener((response) => {
      const location = `${other.url}/stolen?key=${KEY}`
      response.writeHead(status, { location, refresh: `0; url=${location}` }).end(location)
    })
    const provider = VENDORS[id]!.create({ apiKey: KEY, baseUrl: vendor.url })
    const events = await collect(provider.stream(request, run))
    expect(last(events)).toMatchObject({
      type: 'response_error',
      error: {
        code: `HTTP_${status}`,
        message: 'The provider returned a redirect, which is not followed',
      },
    })
    expect(vendor.calls).toEqual([{ path: VENDORS[id]!.path, host: vendor.host, key: true }])
    expect(other.calls).toEqual([])
    expect(JSON.stringify(events)).not.toContain('stolen')
  })

  test.each(Object.keys(VENDORS))('%s during a retry', async (id) => {
    const clock = fakeClock()
    const other = await listener(refuse)
    const vendor = await listener((response, _incoming, count) => {
      if (count === 1) response.writeHead(503).end('busy')
      else response.writeHead(307, { location: other.url }).end()
    })
    const provider = VENDORS[id]!.create({ apiKey: KEY, baseUrl: vendor.url, clock })
    const events = await collectWith(clock, provider.stream(request, run))
    expect(last(events)).toMatchObject({ error: { code: 'HTTP_307' } })
    expect(vendor.calls).toHaveLength(2)
    expect(other.calls).toEqual([])
  })

  test('nor is an opaque redirect, as in browsers', async () => {
    const opaque = {
      ok: false,
      status: 0,
      type: 'opaqueredirect',
      headers: new Headers(),
      body: null,
    }
    const fetch = async () => opaque as unknown as Response
    const provider = VENDORS['openai']!.create({ fetch })
    expect(last(await collect(provider.stream(request, run)))).toMatchObject({
      error: { code: 'HTTP_302', message: expect.stringContaining('redirect') },
    })
  })
})

/** Names that would be another place, if they were taken for more than a name. */
const MODELS = [
  '../../../evil',
  '..',
  '.',
  'a/../../b',
  'models/..',
  '/evil',
  '//127.0.0.1:1/evil',
  'http://127.0.0.1:1/evil',
  'm?key=x&alt=json',
  'm#fragment',
  'user:pass@127.0.0.1:1',
  'm\r\nhost: evil\r\n\r\n',
  'm%2f..%2f..%2fevil',
  '%2e%2e/%2e%2e/evil',
  String.raw`..\..\evil`,
  'm;param=1',
  'm:generateContent',
  'm\0',
  'm m',
  '\ud800',
  'm\u2028',
  'ｍ．．／evil',
]

/** The path of a call without its query, and without what a name may stand in. */
const WITH_NAME = /^\/v1beta\/[^?#]+:streamGenerateContent\?alt=sse$/

describe('a model name is only a name:', () => {
  const rows = Object.keys(VENDORS).flatMap((id) => MODELS.map((model) => ({ id, model })))

  test.each(rows)('$id and $model', async ({ id, model }) => {
    const vendor = await listener(refuse)
    const provider = VENDORS[id]!.create({
      apiKey: KEY,
      baseUrl: `${vendor.url}/base/`,
      maxRetries: 0,
    })
    const events = await collect(provider.stream({ ...request, model }, run))
    const [call] = vendor.calls
    if (call === undefined) {
      expect(errorCode(events)).toBe('OPTION_INVALID')
      return
    }
    expect(errorCode(events)).toBe('HTTP_400')
    expect(call).toMatchObject({ host: vendor.host, key: true })
    const path = call.path.replace(/^\/base/, '')
    if (id !== 'gemini') expect(path).toBe(VENDORS[id]!.path)
    else {
      expect(path).toMatch(WITH_NAME)
      // Nothing in it is a step to another place, in any spelling.
      expect(decodeURIComponent(path.split('?')[0] ?? '').split(/[/\\]/)).not.toContain('..')
    }
  })

  function errorCode(events: StreamEvent[]): string {
    const payload = last(events)
    return payload?.type === 'response_error' ? payload.error.code : ''
  }
})

describe('no other part of a request changes its URL:', () => {
  const evil = 'http://127.0.0.1:1/evil'
  const REQUEST: ProviderRequest = {
    model: 'm',
    input: [
      {
        type: 'message',
        id: 'a',
        content: evil,
        origin: 'user',
        provider_metadata: { url: evil, baseUrl: evil, openai: { baseUrl: evil } },
      },
    ],
    tools: [{ name: 'fetch', parameters: { $ref: evil, url: evil } }],
    ...({ baseUrl: evil, url: evil, headers: { host: 'evil' }, apiKey: 'x' } as object),
  }

  test.each(Object.entries(VENDORS))('%s', async (_id, row) => {
    const vendor = await listener(refuse)
    const provider = row.create({ apiKey: KEY, baseUrl: vendor.url })
    await collect(provider.stream(REQUEST, { ...run, threadId: evil, turnId: evil, runId: evil }))
    expect(vendor.calls).toEqual([{ path: row.path, host: vendor.host, key: true }])
  })
})

describe("a vendor's base URL", () => {
  const REFUSED = [
    'ftp://host',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'host:8080/v1',
    'http://user@host/v1',
    'http://:pass-word@host/v1',
    'https://host/v1?key=pass-word',
    'https://host/v1#pass-word',
    'http://',
    '',
    '//host/v1',
    'v1',
  ]

  test.each(REFUSED)('%j is refused without printing it', (baseUrl) => {
    expect(isBaseUrl(baseUrl)).toBe(false)
    for (const { create } of Object.values(VENDORS)) {
      expect(() => create({ baseUrl })).toThrow(
        'Invalid option: baseUrl takes an http:// or https:// URL without credentials',
      )
      expect(() => create({ baseUrl })).not.toThrow('pass-word')
    }
  })

  test.each(['http://localhost:11434/v1', 'https://host', 'https://host/a/b/', 'http://[::1]:1'])(
    '%s is valid',
    (baseUrl) => {
      expect(isBaseUrl(baseUrl)).toBe(true)
      expect(() => checkBaseUrl(baseUrl)).not.toThrow()
    },
  )

  test('may be a path in a page with a host', () => {
    expect(() => checkBaseUrl('/api/openai')).not.toThrow()
    expect(isBaseUrl('/api/openai')).toBe(false)
  })
})
