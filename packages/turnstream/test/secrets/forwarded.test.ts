/** What a gateway passes on between a client and a vendor: what was asked and answered, and no header of either. */
import { expect, onTestFinished, test } from 'vitest'
import { VENDORS } from '../../../core/test/formats/vendors.ts'
import { startVendor } from '../providers/vendor-server.ts'
import { call, sealed, startServer } from '../server/support.ts'

/** Headers with which a client may hope to reach further than it should. */
const HEADERS = {
  authorization: 'Bearer client-secret',
  'x-api-key': 'client-secret',
  'x-goog-api-key': 'client-secret',
  cookie: 'session=client-secret',
  'x-forwarded-for': '10.9.8.7',
  'x-forwarded-host': 'evil.example',
  'x-forwarded-proto': 'gopher',
  forwarded: 'host=evil.example',
  'x-original-url': '/evil',
  'x-rewrite-url': '/evil',
  'anthropic-version': 'evil',
  'anthropic-beta': 'evil',
  'openai-organization': 'evil',
  traceparent: '00-evil',
  tracestate: 'evil=1',
  'user-agent': 'evil',
  'x-request-id': 'evil-request',
  'idempotency-key': 'evil-run',
}

/** Fields that would be addresses, if anybody read them. */
const FIELDS = {
  baseUrl: 'http://evil.example',
  base_url: 'http://evil.example',
  url: 'http://evil.example',
  endpoint: 'http://evil.example',
  headers: { host: 'evil.example' },
  apiKey: 'client-secret',
  metadata: { baseUrl: 'http://evil.example' },
  provider_metadata: { baseUrl: 'http://evil.example' },
}

test.each(Object.entries(VENDORS))('%s', async (id, { create, path, keyHeader }) => {
  const calls: string[] = []
  const vendor = await startVendor((response, request) => {
    const { headers, url = '' } = request
    expect(headers.host).toBe(new URL(vendor.url).host)
    expect(headers[keyHeader[0]]).toBe(`${keyHeader[1]}vendor-secret`)
    calls.push(`${url} ${JSON.stringify(headers)} ${vendor.bodies.at(-1)}`)
    response.writeHead(400, {
      'set-cookie': 'vendor=cookie',
      'x-vendor': 'vendor-header',
      'x-request-id': 'vendor-request',
      'access-control-allow-origin': '*',
      'content-security-policy': 'vendor-policy',
    })
    response.end('{"error":{"message":"no"}}')
  })
  onTestFinished(() => vendor.close())
  const provider = create({ id, apiKey: 'vendor-secret', baseUrl: vendor.url, maxRetries: 0 })
  const server = await startServer({ more: [provider] })
  const body = { prompt: 'Hello', model: `${id}/m`, runId: 'evil-run', turnId: 'a' }
  for (const [name, value] of Object.entries(FIELDS)) {
    const refused = await call(server, 'POST /api/v2/submit', { body: { ...body, [name]: value } })
    expect(refused.status).toBe(400)
  }
  const submitted = await call(server, 'POST /api/v2/submit', { body, headers: HEADERS })
  expect(submitted.status).toBe(202)
  await sealed(server.log, 'a')
  expect(calls).toHaveLength(1)
  expect(calls[0]?.startsWith(`${path} `)).toBe(true)
  expect(calls[0]).toContain('Hello')
  expect(calls[0]).not.toMatch(/evil|client-secret|10\.9\.8\.7|gopher/)
  const answers = await Promise.all([
    fetch(`${server.url}/api/v2/runs/evil-run`),
    fetch(`${server.url}/api/v2/stream/evil-run`),
    fetch(`${server.url}/xapi/turns/a/stream`),
  ])
  for (const answer of [submitted, ...answers]) {
    expect(JSON.stringify([...answer.headers])).not.toContain('vendor')
    expect(answer.headers.has('access-control-allow-origin')).toBe(false)
  }
  const texts = await Promise.all(answers.map((answer) => answer.text()))
  for (const text of texts) {
    expect(text).toContain('HTTP_400')
    expect(text).not.toMatch(
      /vendor-secret|vendor=cookie|vendor-header|vendor-request|127\.0\.0\.1/,
    )
  }
})
