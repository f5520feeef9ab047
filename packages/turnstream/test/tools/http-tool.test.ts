import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  createHttpTool,
  createProviderFetch,
  type HttpToolOptions,
  type ToolCallContext,
} from '../../src/server.ts'

type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void> | void

async function startEndpoint(handler: Handler): Promise<string> {
  const server = createServer((request, response) => void handler(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function context(signal = new AbortController().signal): ToolCallContext {
  return { turnId: 't', threadId: 'th', callId: 'c', signal }
}

function weather(url: string, more: Partial<HttpToolOptions> = {}) {
  const parameters = { type: 'object', properties: {} }
  return createHttpTool({ name: 'weather', parameters, url, ...more })
}

function answering(status: number, body: string | Buffer, headers = {}): Handler {
  return (request, response) => {
    request.resume()
    response.writeHead(status, headers).end(body)
  }
}

describe.each([
  ['the fetch of Node', globalThis.fetch],
  ['the fetch of providers', createProviderFetch()],
])('with %s', (_name, fetch) => {
  test('arguments are posted as JSON, and the body is the output', async () => {
    const requests: unknown[] = []
    const url = await startEndpoint(async (request, response) => {
      const body = JSON.parse((await request.toArray()).join('')) as unknown
      const { 'content-type': type, authorization } = request.headers
      requests.push([request.method, request.url, type, authorization, body])
      response.end('{"temperature":17}')
    })
    const tool = weather(`${url}/w?unit=c`, { fetch, headers: { authorization: 'Bearer abc' } })
    expect(await tool.execute({ city: 'Lisbon' }, context())).toBe('{"temperature":17}')
    expect(requests).toEqual([
      ['POST', '/w?unit=c', 'application/json', 'Bearer abc', { city: 'Lisbon' }],
    ])
  })

  test('a redirect at the same origin is followed, with the arguments', async () => {
    const url = await startEndpoint(async (request, response) => {
      const body = (await request.toArray()).join('')
      if (request.url === '/new') response.end(`moved ${body}`)
      else response.writeHead(308, { location: '/new' }).end()
    })
    expect(await weather(url, { fetch }).execute({ a: 1 }, context())).toBe('moved {"a":1}')
  })

  test.each([
    ['another host', 307, 'http://localhost:1/x'],
    ['a request without arguments', 303, '/x'],
    ['nowhere', 308, undefined],
    ['itself for ever', 308, '/'],
  ])('a redirect to %s is a failure', async (_name, status, location) => {
    const url = await startEndpoint(answering(status, '', location && { location }))
    await expect(weather(url, { fetch }).execute({}, context())).rejects.toThrow(
      `status ${status}: the redirect was not followed`,
    )
  })

  test('an output that is too large is a failure, however it is sent', async () => {
    let isClosed = (): void => {}
    const closed = new Promise<void>((resolve) => {
      isClosed = resolve
    })
    const url = await startEndpoint((request, response) => {
      request.resume()
      response.on('close', isClosed)
      const send = (): void => {
        while (response.write('x'.repeat(1000)) && !response.destroyed);
        if (!response.destroyed) response.once('drain', send)
      }
      send()
    })
    const tool = weather(url, { fetch, maxOutputBytes: 5000 })
    await expect(tool.execute({}, context())).rejects.toThrow('the output exceeds 5000 bytes')
    await closed
  })

  test('the signal of the turn ends the request', async () => {
    const stop = new AbortController()
    let isClosed = (): void => {}
    const closed = new Promise<void>((resolve) => {
      isClosed = resolve
    })
    const url = await startEndpoint((_request, response) => {
      response.on('close', isClosed)
      stop.abort(new Error('stopped'))
    })
    await expect(weather(url, { fetch }).execute({}, context(stop.signal))).rejects.toThrow(
      /abort|stopped/i,
    )
    await closed
  })

  test('an unreachable address is a failure without the address', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    server.close()
    await once(server, 'close')
    const tool = weather(`http://127.0.0.1:${port}/`, { fetch })
    await expect(tool.execute({}, context())).rejects.toThrow(/^no response \(ECONNREFUSED\)$/)
  })
})

describe('a failed response', () => {
  test.each([
    [404, 'no such\n city', 'status 404: no such city'],
    [500, '', 'status 500'],
    [503, 'x'.repeat(100_000), `status 503: ${'x'.repeat(500)}`],
  ])('with status %i says so, with an excerpt', async (status, body, message) => {
    const url = await startEndpoint(answering(status, body))
    const output = weather(url, { maxOutputBytes: 10 }).execute({}, context())
    await expect(output).rejects.toThrow(new Error(message))
  })

  test('that is not text is a failure', async () => {
    const url = await startEndpoint(answering(200, Buffer.from([0x89, 0x50, 0xff, 0x00])))
    await expect(weather(url).execute({}, context())).rejects.toThrow('not UTF-8 text')
  })
})

test.each([200, 500])('status %i: values of headers never come back', async (status) => {
  const url = await startEndpoint((request, response) => {
    request.resume()
    response.writeHead(status).end(JSON.stringify(request.headers))
  })
  const headers = { authorization: 'Bearer secret-of-mine', 'x-api-key': 'another-secret' }
  const tool = weather(url, { headers, secrets: ['127.0.0.1'] })
  const text = await (tool.execute({}, context()) as Promise<string>).catch(String)
  expect(text).toContain('authorization')
  expect(text).not.toMatch(/secret-of-mine|another-secret|127\.0\.0\.1/)
})

test('calls beyond the limit wait', async () => {
  let running = 0
  let most = 0
  const url = await startEndpoint((request, response) => {
    running += 1
    most = Math.max(most, running)
    request.resume().on('end', () =>
      setImmediate(() => {
        running -= 1
        response.end('done')
      }),
    )
  })
  const tool = weather(url, { maxParallelCalls: 2 })
  const calls = Array.from({ length: 8 }, () => tool.execute({}, context()))
  expect(await Promise.all(calls)).toEqual(Array.from({ length: 8 }, () => 'done'))
  expect(most).toBe(2)
})

test.each([
  [{ name: 'a b' }, 'the tool name "a b" is not usable'],
  [{ parameters: { type: 'list' } }, 'parameters of weather: type must be "object"'],
  [{ url: 'file:///etc/passwd' }, 'url of weather'],
  [{ timeoutMs: 0 }, 'timeoutMs must be at least 1, not 0'],
])('is refused: %j', (more, message) => {
  expect(() => weather('http://localhost/', more)).toThrow(message)
})

test('V8 calls need approval if the options require it', () => {
  expect(weather('http://w.example', { needsApproval: true }).needsApproval).toBe(true)
  expect(weather('http://w.example')).not.toHaveProperty('needsApproval')
})
