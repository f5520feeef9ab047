import { type AddressInfo, createServer } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { createOpenaiChatProvider } from '../../src/index.ts'
import { readBody } from '../../src/providers/body.ts'
import { createProviderFetch } from '../../src/server.ts'
import { collect, last, request, run, STOP, TEXT } from '../providers/http-support.ts'
import { chunk, HEAD, rawVendor } from '../providers/raw-vendor.ts'
import { type Answer, sse, startVendor } from '../providers/vendor-server.ts'

async function vendor(answer: Answer) {
  const server = await startVendor(answer)
  onTestFinished(() => server.close())
  return server
}

/** Takes connections and says nothing, so that TLS never comes about. */
async function silentPort() {
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    socket.on('error', () => {})
    onTestFinished(() => void socket.destroy())
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  onTestFinished(() => void server.close())
  return { port: (server.address() as AddressInfo).port, connections: () => connections }
}

describe('connecting', () => {
  test('times out and is retried', async () => {
    const { port, connections } = await silentPort()
    const provider = createOpenaiChatProvider({
      baseUrl: `https://127.0.0.1:${port}`,
      fetch: createProviderFetch({ connectMs: 50 }),
    })
    expect(last(await collect(provider.stream(request, run)))).toMatchObject({
      error: { code: 'UPSTREAM_UNREACHABLE', message: expect.stringContaining('ETIMEDOUT') },
    })
    expect(connections()).toBe(3)
  })

  test('is the only phase with a timeout: headers may take longer', async () => {
    const { url } = await vendor((response, incoming, count) => {
      setTimeout(() => void sse(TEXT, STOP)(response, incoming, count), 200)
    })
    const fetch = createProviderFetch({ connectMs: 100 })
    const provider = createOpenaiChatProvider({ baseUrl: url, fetch })
    expect(last(await collect(provider.stream(request, run)))).toMatchObject({
      type: 'response_done',
    })
  })
})

describe('a response', () => {
  test('has its status, headers and body, and the connection is reused', async () => {
    const sockets = new Set<unknown>()
    const { url, bodies } = await vendor((response, incoming) => {
      sockets.add(incoming.socket)
      response.writeHead(429, { 'retry-after': '7', 'x-token': incoming.headers['x-token'] ?? '' })
      response.end('slow down')
    })
    const fetch = createProviderFetch()
    for (let call = 0; call < 2; call++) {
      const response = await fetch(url, {
        method: 'POST',
        body: 'hi',
        headers: { 'x-token': 't' },
      })
      expect(response.status).toBe(429)
      expect(response.headers.get('retry-after')).toBe('7')
      expect(response.headers.get('x-token')).toBe('t')
      expect(await response.text()).toBe('slow down')
    }
    expect(bodies).toEqual(['hi', 'hi'])
    expect(sockets.size).toBe(1)
  })

  test.each([204, 304])('with status %i has no body', async (status) => {
    const { url } = await vendor((response) => void response.writeHead(status).end())
    expect((await createProviderFetch()(url)).body).toBeNull()
  })

  test('with an invalid status is refused', async () => {
    const { url } = await vendor((response) => void response.writeHead(999).end())
    await expect(createProviderFetch()(url)).rejects.toThrow(RangeError)
  })

  test('that is aborted closes its connection', async () => {
    const { url, sockets } = await rawVendor((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n')
    })
    const controller = new AbortController()
    const response = await createProviderFetch()(url, { signal: controller.signal })
    const [socket] = sockets
    const closed = new Promise((resolve) => socket?.once('close', resolve))
    controller.abort()
    await expect(response.text()).rejects.toThrow('aborted')
    await closed
  })
})

describe('a body that is read in chunks', () => {
  test('waits for a slow reader, and comes whole', async () => {
    const { url } = await vendor((response) => void response.end('x'.repeat(1_000_000)))
    const response = await createProviderFetch()(url)
    let isBusy = false
    let bytes = 0
    await readBody(response, async ({ length }) => {
      expect(isBusy).toBe(false)
      isBusy = true
      await new Promise(setImmediate)
      isBusy = false
      bytes += length
      return true
    })
    expect(bytes).toBe(1_000_000)
  })

  test('rejects when it breaks off, and when the reader throws', async () => {
    const broken = await rawVendor((socket) => {
      socket.write(HEAD + chunk('hi'), () => socket.destroy())
    })
    const cut = readBody(await createProviderFetch()(broken.url), () => true)
    await expect(cut).rejects.toMatchObject({ code: 'ECONNRESET' })
    const endless = await rawVendor((socket) => void socket.write(HEAD + chunk('hi')))
    const failed = readBody(await createProviderFetch()(endless.url), () => {
      throw new Error('enough')
    })
    await expect(failed).rejects.toThrow('enough')
    await eventually(() => expect(endless.sockets.size).toBe(0))
  })

  test('leaves its connection to the next call when it ends soon after the reader has enough', async () => {
    const sockets: unknown[] = []
    const { url } = await vendor((response, { socket }) => {
      sockets.push(socket)
      response.write('enough')
      setImmediate(() => response.end('more'))
    })
    const fetch = createProviderFetch()
    await eventually(async () => {
      await readBody(await fetch(url), () => false)
      expect(new Set(sockets).size).toBeLessThan(sockets.length)
    })
  })
})
