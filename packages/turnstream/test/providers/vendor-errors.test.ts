/** What readers of a turn are told when a vendor fails: its reason, and nothing that is not for them. */

import type { IncomingMessage } from 'node:http'
import { describe, expect, onTestFinished, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { ErrorObject, StreamEvent } from '../../../core/src/index.ts'
import { VENDORS } from '../../../core/test/formats/vendors.ts'
import type { HttpProviderOptions } from '../../src/index.ts'
import { concealing } from '../../src/providers/vendor-errors.ts'
import { refusingPort } from '../cli/support.ts'
import { collect, collectWith, last, request, run } from './http-support.ts'
import { type Answer, startVendor } from './vendor-server.ts'

const KEY = 'planted/key+of=ours'
const [USER, PASSWORD] = ['planted-user', 'planted-password']

/** The key as a vendor may repeat it. */
const SPELLINGS: Record<string, string> = {
  'as it is': KEY,
  'in a URL': encodeURIComponent(KEY),
  'as Basic credentials': Buffer.from(`user:${KEY}`).toString('base64'),
  'in JSON': JSON.stringify(JSON.stringify({ key: KEY })),
}

async function eventsOf(
  vendor: string,
  answer: Answer,
  options: HttpProviderOptions = {},
): Promise<StreamEvent[]> {
  const server = await startVendor(answer)
  onTestFinished(() => server.close())
  const provider = VENDORS[vendor]!.create({
    apiKey: KEY,
    baseUrl: server.url,
    maxRetries: 0,
    ...options,
  })
  return collect(provider.stream(request, run))
}

function errorOf(events: StreamEvent[]): ErrorObject {
  const payload = last(events)
  if (payload?.type !== 'response_error') throw new Error(`it ended with ${payload?.type}`)
  return payload.error
}

const status =
  (code: number, body: string): Answer =>
  (response) => {
    response.writeHead(code, { 'content-type': 'application/json' }).end(body)
  }

const stream =
  (...frames: string[]): Answer =>
  (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(frames.map((frame) => `data: ${frame}\n\n`).join(''))
  }

function checkNothingIsLeft(events: StreamEvent[]): void {
  const text = JSON.stringify(events)
  for (const spelling of Object.values(SPELLINGS)) {
    expect(text).not.toContain(spelling.slice(10, 20))
  }
}

describe.each(Object.keys(VENDORS))('%s', (vendor) => {
  const { errorEvent } = VENDORS[vendor]!

  test.each(Object.entries(SPELLINGS))('that echoes the key %s in an error', async (_, said) => {
    const message = `Incorrect API key provided: ${said}. See the docs.`
    const events = await eventsOf(vendor, status(401, JSON.stringify({ error: { message } })))
    expect(errorOf(events).code).toBe('HTTP_401')
    expect(errorOf(events).message).toContain('Incorrect API key provided: ')
    expect(errorOf(events).message).toContain('See the docs.')
    checkNothingIsLeft(events)
  })

  test('that echoes the key in its stream', async () => {
    const events = await eventsOf(vendor, stream(JSON.stringify(errorEvent(`bad key ${KEY} here`))))
    expect(errorOf(events).message).toBe('bad key [redacted] here')
    checkNothingIsLeft(events)
  })

  test('that echoes the key in a body that is not JSON', async () => {
    // The parser quotes some characters around the fault, so that only a part of the key may be there.
    for (const frame of [`{"a": ${KEY}`, `{"a": "${KEY}`, KEY.slice(0, 9)]) {
      const events = await eventsOf(vendor, stream(frame, frame))
      expect(errorOf(events).code).toMatch(/^UPSTREAM_/)
      expect(JSON.stringify(events)).not.toContain('planted')
    }
  })

  test('that echoes the key in the status line and headers', async () => {
    const events = await eventsOf(vendor, (response) => {
      response.writeHead(400, `No ${KEY}`, { 'x-error': KEY, 'set-cookie': `a=${KEY}` }).end()
    })
    expect(errorOf(events)).toEqual({ code: 'HTTP_400', message: 'No [redacted]' })
    checkNothingIsLeft(events)
  })

  test('that is unreachable', async () => {
    const port = await refusingPort()
    const baseUrl = `http://127.0.0.1:${port}`
    const events = await eventsOf(vendor, status(200, ''), { baseUrl })
    expect(errorOf(events)).toEqual({
      code: 'UPSTREAM_UNREACHABLE',
      message: 'The call to the provider failed (ECONNREFUSED)',
    })
    expect(JSON.stringify(events)).not.toContain(`${port}`)
  })

  test('whose key is not a valid header', async () => {
    const clock = fakeClock()
    const server = await startVendor(status(200, ''))
    onTestFinished(() => server.close())
    const apiKey = `${KEY}\n.`
    const provider = VENDORS[vendor]!.create({ apiKey, baseUrl: server.url, clock })
    const events = await collectWith(clock, provider.stream(request, run))
    expect(errorOf(events).code).toBe('UPSTREAM_UNREACHABLE')
    expect(server.bodies).toEqual([])
    checkNothingIsLeft(events)
  })
})

describe("an error body not in the vendor's format", () => {
  const traceback = [
    'Traceback (most recent call last):',
    '  File "/usr/lib/python3/site-packages/vllm/engine.py", line 12, in step',
    `    connect("http://${USER}:${PASSWORD}@10.1.2.3:9000")`,
  ].join('\n')

  test.each([
    ['a trace', traceback],
    ['a page', `<html><body>nginx at gateway-7.internal ${KEY}</body></html>`],
    ['JSON of another shape', JSON.stringify({ detail: [{ loc: ['body'], input: 'a prompt' }] })],
    ['a long text', 'word '.repeat(100)],
  ])('is not repeated: %s', async (_name, body) => {
    const events = await eventsOf('openai-compatible', status(500, body))
    expect(errorOf(events)).toEqual({ code: 'HTTP_500', message: 'Internal Server Error' })
  })

  test('is repeated when it is a sentence', async () => {
    const events = await eventsOf('openai-compatible', status(503, 'The model is loading\n'))
    expect(errorOf(events).message).toBe('The model is loading')
  })
})

describe('a sanitised message', () => {
  const conceal = concealing({
    apiKey: KEY,
    baseUrl: 'https://llm.example.org:8443/v1',
    headers: {
      'x-team-token': 'team-secret',
      accept: 'text/plain',
      authorization: 'Bearer other-1',
    },
  })

  test.each([
    [
      'the host that an operator set',
      'at https://llm.example.org:8443/v1/x',
      'at https://[host]/v1/x',
    ],
    ['the same without its port', 'LLM.example.org is down', '[host] is down'],
    [
      'another host',
      'see https://platform.openai.com/docs',
      'see https://platform.openai.com/docs',
    ],
    ['the same in a URL', 'host%22%3A%22llm.example.org%3A8443', 'host%22%3A%22[redacted]'],
    ['a name like it', 'llm.example.com', 'llm.example.com'],
    ['a private address', 'dial tcp 10.1.2.3:9000: refused', 'dial tcp [host]: refused'],
    ['another', 'upstream 192.168.0.7, 172.20.1.1', 'upstream [host], [host]'],
    ['a public address', 'from 172.40.1.1 and 8.8.8.8', 'from 172.40.1.1 and 8.8.8.8'],
    ['this machine', 'localhost:8000 and 127.0.0.1', '[host] and [host]'],
    ['names inside a network', 'vllm-0.models.svc:80 or db.prod.internal', '[host] or [host]'],
    ['a version', 'needs 10.2.1 of it', 'needs 10.2.1 of it'],
    ['a file', 'in /usr/lib/x/engine.py, line 3', 'in [path], line 3'],
    ['files elsewhere', String.raw`C:\models\a.bin or file:///srv/a`, '[path] or [path]'],
    ['a path of the API', 'POST /v1/chat/completions', 'POST /v1/chat/completions'],
    ['a header that is a secret', 'team-secret or other-1', '[redacted] or [redacted]'],
    ['an invalid header', 'accept text/plain', 'accept text/plain'],
    ['what looks like a key', 'use sk-abcdefghijkl', 'use [redacted]'],
  ])('%s', (_name, message, shown) => {
    expect(conceal({ code: 'x', message })).toEqual({ code: 'x', message: shown })
  })

  test('its code is only a code', () => {
    expect(conceal({ code: `bad_${KEY}`, message: '' }).code).toBe('bad_[redacted]')
    expect(conceal({ code: 'x'.repeat(5000), message: '' }).code).toHaveLength(100)
  })

  test('is truncated after redaction, so no part of a key is left', () => {
    for (let length = 950; length <= 1000; length++) {
      const { message } = conceal({ code: 'x', message: `${'a'.repeat(length)} ${KEY}` })
      expect(message).not.toContain('plan')
      expect(message.length).toBeLessThanOrEqual(1000)
    }
  })
})

test('model output is not changed, whatever it looks like', async () => {
  const content = `Use sk-0123456789abcdef at 10.0.0.1`
  const delta = { model: 'm', choices: [{ index: 0, delta: { content } }] }
  const stop = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
  const answer = stream(JSON.stringify(delta), JSON.stringify(stop))
  const events = await eventsOf('openai-compatible', answer)
  expect(JSON.stringify(events)).toContain(content)
})

describe('a request has', () => {
  test.each(Object.entries(VENDORS))('%s: only its own headers', async (_id, row) => {
    const seen: IncomingMessage['headers'][] = []
    const server = await startVendor((response, incoming) => {
      seen.push(incoming.headers)
      response.writeHead(400, { 'set-cookie': 'a=b' }).end()
    })
    onTestFinished(() => server.close())
    const provider = row.create({ apiKey: KEY, baseUrl: server.url })
    // Twice: a cookie would come back the second time.
    await collect(provider.stream(request, run))
    await collect(provider.stream(request, run))
    const [name, before] = row.keyHeader
    const known = ['accept', 'content-type', name, 'anthropic-version']
    const ofFetch = ['host', 'connection', 'content-length', 'user-agent', 'accept-encoding']
    const others = [...ofFetch, 'accept-language', 'sec-fetch-mode']
    expect(seen).toHaveLength(2)
    for (const headers of seen) {
      expect(headers[name]).toBe(`${before}${KEY}`)
      expect(Object.keys(headers).filter((each) => ![...known, ...others].includes(each))).toEqual(
        [],
      )
    }
  })
})
