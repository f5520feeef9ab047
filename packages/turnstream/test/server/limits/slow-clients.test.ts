/** Clients that take their time to send what they ask, or to ask again. */
import { describe, expect, test } from 'vitest'
import { startServer } from '../support.ts'
import { Wire } from '../wire.ts'

const SOON = { headersTimeoutMs: 200, requestTimeoutMs: 400 }
const HEAD = 'POST /api/v2/submit HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n'
const BODY = '{"prompt":"Hi","turnId":"turn"}'

describe('an incomplete request', () => {
  const SLOW: Record<string, string> = {
    'not a byte of it': '',
    'half a line': 'GET /heal',
    'half a head': 'GET /healthz HTTP/1.1\r\nhost: a\r\nx: ',
    'a head without its blank line': 'GET /healthz HTTP/1.1\r\nhost: a\r\n',
    'blank lines': '\r\n\r\n\r\n',
    'half a body': `${HEAD}content-length: ${BODY.length}\r\n\r\n${BODY.slice(0, -1)}`,
    'no body': `${HEAD}content-length: ${BODY.length}\r\n\r\n`,
    'a body that is shorter than it says': `${HEAD}content-length: 1000\r\n\r\n${BODY}`,
    'half a chunk': `${HEAD}transfer-encoding: chunked\r\n\r\nff\r\n${BODY}`,
    'chunks without the last': `${HEAD}transfer-encoding: chunked\r\n\r\n1f\r\n${BODY}\r\n`,
    'half the size of a chunk': `${HEAD}transfer-encoding: chunked\r\n\r\nf`,
    'a body that shall be asked for': `${HEAD}content-length: 100\r\nexpect: 100-continue\r\n\r\n`,
  }

  test.each(Object.entries(SLOW))('is 408 after its timeout: %s', async (_name, text) => {
    const server = await startServer({ port: SOON })
    const wire = await Wire.open(server.url)
    wire.send(text)
    await wire.closed
    const answer = wire.text.replace('HTTP/1.1 100 Continue\r\n\r\n', '')
    expect(answer).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/)
    expect(wire.header('content-type')).toBe('application/json')
    expect(wire.header('connection')).toBe('close')
    expect(answer).toContain('"code":"REQUEST_INVALID"')
    expect((await server.log.listThreads()).items).toEqual([])
    expect(server.errors).toEqual([])
  })

  test('is 408 also as the second on its connection', async () => {
    const { url } = await startServer({ port: SOON })
    const wire = await Wire.open(url)
    wire.send('GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n')
    await wire.until('"ok"')
    wire.send('GET /healthz HTT')
    await wire.closed
    expect(wire.text).toContain('HTTP/1.1 408 Request Timeout')
  })

  test('has no effect when the rest arrives too late', async () => {
    const server = await startServer({ port: SOON })
    const wire = await Wire.open(server.url)
    wire.send(`${HEAD}content-length: ${BODY.length}\r\n\r\n${BODY.slice(0, -1)}`)
    await wire.until('408')
    wire.send('}')
    await wire.closed
    expect(await server.log.getTurn('turn')).toBeUndefined()
    expect(server.errors).toEqual([])
  })

  test('is limited in total time, however often a byte arrives', async () => {
    const { url } = await startServer({ port: SOON })
    const wire = await Wire.open(url)
    const startedAt = performance.now()
    wire.send('GET /healthz HTTP/1.1\r\nhost: a\r\nx: ')
    const drip = setInterval(() => wire.send('y'), 20)
    await wire.closed
    clearInterval(drip)
    expect(wire.status).toBe(408)
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(SOON.headersTimeoutMs)
  })
})

describe('a body that does not match its length', () => {
  test('is read up to its declared length', async () => {
    const server = await startServer()
    const wire = await Wire.open(server.url)
    wire.send(`${HEAD}content-length: ${BODY.length}\r\n\r\n${BODY}`)
    await wire.until('"turnId":"turn"')
    wire.send('{"prompt":"smuggled"}')
    await wire.closed
    expect(wire.text.match(/HTTP\/1\.1 \d{3}/g)).toEqual(['HTTP/1.1 202', 'HTTP/1.1 400'])
    expect((await server.log.listThreads()).items).toHaveLength(1)
  })

  test.each([
    ['a size and chunks', `content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['a size that is negative', 'content-length: -1\r\n\r\n'],
    ['a length that is not a number', 'content-length: 0x10\r\n\r\n'],
    ['a size beyond all numbers', `content-length: ${'9'.repeat(30)}\r\n\r\n`],
    ['a chunk beyond all numbers', `transfer-encoding: chunked\r\n\r\n${'f'.repeat(30)}\r\n`],
    ['a chunk of no size', 'transfer-encoding: chunked\r\n\r\nxyz\r\n'],
  ])('is not a request: %s', async (_name, rest) => {
    const server = await startServer()
    const wire = await Wire.open(server.url)
    wire.send(`${HEAD}${rest}`)
    await wire.closed
    expect([400, 413]).toContain(wire.status)
    expect(server.errors).toEqual([])
  })

  test('is refused early when its declared length is too large', async () => {
    const { url } = await startServer({ maxBodyBytes: 100 })
    const wire = await Wire.open(url)
    wire.send(`${HEAD}content-length: 101\r\n\r\n`)
    await wire.closed
    expect([wire.status, wire.code]).toEqual([413, 'BODY_TOO_LARGE'])
  })

  test('is refused at the limit when it is chunked and endless', async () => {
    const { url } = await startServer({ maxBodyBytes: 1000 })
    const wire = await Wire.open(url)
    wire.send(`${HEAD}transfer-encoding: chunked\r\n\r\n`)
    const chunks = '1\r\n \r\n'.repeat(100)
    while (wire.text === '' && !wire.isClosed) {
      await new Promise<void>((resolve) => {
        wire.socket.write(chunks, () => setImmediate(resolve))
      })
    }
    await wire.until('BODY_TOO_LARGE')
    expect(wire.status).toBe(413)
  })
})

describe('an idle connection', () => {
  test('is closed silently after its timeout', async () => {
    const { url } = await startServer({ port: { keepAliveTimeoutMs: 100 } })
    const wire = await Wire.open(url)
    wire.send('GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n')
    await wire.until('"ok"')
    const { text } = wire
    await wire.closed
    expect(wire.text).toBe(text)
  })

  test('may send requests again and again', async () => {
    const { url } = await startServer({ port: { keepAliveTimeoutMs: 1000 } })
    const wire = await Wire.open(url)
    for (let each = 0; each < 200; each++) {
      wire.text = ''
      wire.send('GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n')
      await wire.until('"ok"')
      expect(wire.status).toBe(200)
    }
    wire.close()
  })

  test('is closed when its client has half-closed it', async () => {
    const { url } = await startServer()
    const wire = await Wire.open(url)
    wire.send('GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n')
    await wire.until('"ok"')
    wire.socket.end()
    await wire.closed
    expect(wire.status).toBe(200)
  })
})
