/** Requests that are too large before their body, at the edges of what is allowed and far beyond. */

import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { ERROR_CODES, type ErrorCode } from '../../../../core/src/index.ts'
import { checkHead, headOverflow, PORT_LIMITS } from '../../../src/server/limits/port-limits.ts'
import { refuseMalformed } from '../../../src/server/listen.ts'
import { sendRaw } from '../raw-http.ts'
import { call, startServer } from '../support.ts'
import { Wire } from '../wire.ts'

const KB = 1024

/** A request whose address has so many bytes. */
function addressOf(bytes: number): string {
  return `GET /${'x'.repeat(bytes - 1)} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`
}

/** A request whose headers have so many bytes, in lines of up to 1,000. */
function headersOf(bytes: number): string {
  let lines = 'host: a\r\nconnection: close\r\n'
  while (lines.length < bytes) {
    const left = Math.min(1000, bytes - lines.length)
    // The last two must make a whole line, too.
    const size = bytes - lines.length - left > 0 && bytes - lines.length - left < 10 ? 500 : left
    lines += `x: ${'y'.repeat(size - 5)}\r\n`
  }
  return `GET /healthz HTTP/1.1\r\n${lines}\r\n`
}

/** A request with so many headers. */
function manyHeaders(count: number): string {
  const lines = Array.from({ length: count - 2 }, (_, index) => `h${index}: 1\r\n`)
  return `GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n${lines.join('')}\r\n`
}

function oneHeader(bytes: number): string {
  const line = `authorization: ${'k'.repeat(bytes)}\r\n`
  return `GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n${line}\r\n`
}

const ALLOWED: Record<string, [request: string, status: number]> = {
  'an address of 8 KB': [addressOf(8 * KB), 404],
  'headers of 16 KB': [headersOf(16 * KB), 200],
  '100 headers': [manyHeaders(100), 200],
  'one header of 15 KB': [oneHeader(15 * KB), 200],
}

describe('a request is accepted with', () => {
  test.each(Object.entries(ALLOWED))('%s', async (_name, [request, status]) => {
    const { url } = await startServer()
    expect((await sendRaw(url, request)).status).toBe(status)
  })
})

const REFUSED: Record<string, [request: string, code: ErrorCode]> = {
  'an address that is a byte longer': [addressOf(8 * KB + 1), 'URL_TOO_LONG'],
  'an address of 20 KB': [addressOf(20 * KB), 'URL_TOO_LONG'],
  'an address of 30 KB': [addressOf(30 * KB), 'URL_TOO_LONG'],
  'an address of 1 MB': [addressOf(KB * KB), 'URL_TOO_LONG'],
  'an address that never ends': [`GET /${'x'.repeat(100_000)}`, 'URL_TOO_LONG'],
  'a query of 10 KB': [
    `GET /docs?${'q'.repeat(10 * KB)} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`,
    'URL_TOO_LONG',
  ],
  'headers that are a byte larger': [headersOf(16 * KB + 1), 'HEADERS_TOO_LARGE'],
  'headers of 30 KB': [headersOf(30 * KB), 'HEADERS_TOO_LARGE'],
  'headers of 1 MB': [headersOf(KB * KB), 'HEADERS_TOO_LARGE'],
  'one header of 17 KB': [oneHeader(17 * KB), 'HEADERS_TOO_LARGE'],
  'one header of 1 MB': [oneHeader(KB * KB), 'HEADERS_TOO_LARGE'],
  'a header that never ends': [oneHeader(100_000).slice(0, -4), 'HEADERS_TOO_LARGE'],
  '101 headers': [manyHeaders(101), 'HEADERS_TOO_LARGE'],
  '2,000 headers': [manyHeaders(2000), 'HEADERS_TOO_LARGE'],
  '100,000 headers': [manyHeaders(100_000), 'HEADERS_TOO_LARGE'],
}

describe('a request is refused with', () => {
  test.each(Object.entries(REFUSED))('%s', async (_name, [request, code]) => {
    const server = await startServer()
    const answer = await sendRaw(server.url, request)
    const { error } = JSON.parse(answer.body)
    expect([answer.status, error.code]).toEqual([ERROR_CODES[code].status, code])
    expect(answer.headers['x-request-id']).toBe(error.requestId)
    expect(answer.headers['content-type']).toBe('application/json')
    expect(error.message.length).toBeLessThan(200)
    expect((await call(server, 'GET /healthz')).status).toBe(200)
    expect(server.errors).toEqual([])
  })

  test('trailers of 1 MB after its body, which are dropped', async () => {
    const server = await startServer()
    const head = 'POST /api/v2/submit HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n'
    const trailers = `x: ${'y'.repeat(KB * KB)}\r\n\r\n`
    const body = `f\r\n{"prompt":"Hi"}\r\n0\r\n${trailers}`
    const answer = await sendRaw(server.url, `${head}transfer-encoding: chunked\r\n\r\n${body}`)
    expect([answer.status, JSON.parse(answer.body).error.code]).toEqual([431, 'HEADERS_TOO_LARGE'])
    expect((await server.log.listThreads()).items).toEqual([])
    expect(server.errors).toEqual([])
  })

  test('a URL that arrives in pieces', async () => {
    const { url } = await startServer()
    const wire = await Wire.open(url)
    wire.send('GET /')
    for (let each = 0; each < 40 && !wire.isClosed; each++) {
      await new Promise<void>((resolve) => {
        wire.socket.write('x'.repeat(1000), () => resolve())
      })
    }
    await wire.closed
    expect([414, 431]).toContain(wire.status)
  })

  test('a response that arrives while megabytes are still being sent', async () => {
    const { url } = await startServer()
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => sendRaw(url, oneHeader(8 * KB * KB))),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 431))
  })

  test('the limits of the operator', async () => {
    const port = { maxUrlBytes: 100, maxHeaderBytes: 500, maxHeaders: 10 }
    const { url } = await startServer({ port })
    const statuses = async (...requests: string[]) =>
      (await Promise.all(requests.map((each) => sendRaw(url, each)))).map(({ status }) => status)
    expect(await statuses(addressOf(100), addressOf(101))).toEqual([404, 414])
    expect(await statuses(headersOf(500), headersOf(501))).toEqual([200, 431])
    expect(await statuses(manyHeaders(10), manyHeaders(11))).toEqual([200, 431])
  })

  test('no limit without configured limits', async () => {
    const port = { maxUrlBytes: Infinity, maxHeaderBytes: Infinity, maxHeaders: Infinity }
    const { url } = await startServer({ port })
    expect((await sendRaw(url, addressOf(100_000))).status).toBe(404)
    expect((await sendRaw(url, headersOf(100_000))).status).toBe(200)
    expect((await sendRaw(url, manyHeaders(3000))).status).toBe(200)
  })
})

describe('a connection answered early', () => {
  test('is read for one more second and then closed', async () => {
    const clock = fakeClock()
    const options = { clock, limits: PORT_LIMITS }
    const socket = new PassThrough({ autoDestroy: false })
    const overflow = Object.assign(new Error('overflow'), { code: 'HPE_HEADER_OVERFLOW' })
    refuseMalformed(overflow, socket, options)
    // Node reports every further piece as another error.
    for (let each = 0; each < 10; each++) refuseMalformed(overflow, socket, options)
    expect(socket.destroyed).toBe(false)
    expect(String(socket.read()).match(/HTTP\/1\.1 431/g)).toHaveLength(1)
    await clock.advance(999)
    expect([socket.destroyed, clock.pending()]).toEqual([false, 1])
    await clock.advance(1)
    expect(socket.destroyed).toBe(true)
  })

  test('leaves no timer behind when its client closes it first', async () => {
    const clock = fakeClock()
    const socket = new PassThrough()
    refuseMalformed(new Error('noise'), socket, { clock, limits: PORT_LIMITS })
    expect(clock.pending()).toBe(1)
    socket.destroy()
    await once(socket, 'close')
    expect(clock.pending()).toBe(0)
  })
})

describe('the size', () => {
  test('is measured as sent, including separators', () => {
    const limits = { ...PORT_LIMITS, maxHeaderBytes: 16 }
    // "ab: cd\r\n" twice.
    const rawHeaders = ['ab', 'cd', 'ef', 'gh']
    expect(checkHead({ url: '/', rawHeaders }, limits)).toBeUndefined()
    expect(checkHead({ url: '/', rawHeaders: [...rawHeaders, '', ''] }, limits)?.code).toBe(
      'HEADERS_TOO_LARGE',
    )
    expect(checkHead({ rawHeaders }, limits)).toBeUndefined()
  })

  const PACKETS: [name: string, packet: string | undefined, code: ErrorCode][] = [
    ['that begins with a long address', `GET /${'x'.repeat(9000)}`, 'URL_TOO_LONG'],
    ['with a long address and more', `M-SEARCH /${'x'.repeat(9000)} HTTP/1.1\r\n`, 'URL_TOO_LONG'],
    [
      'with a short address and long headers',
      `GET / HTTP/1.1\r\nx: ${'y'.repeat(9000)}`,
      'HEADERS_TOO_LARGE',
    ],
    ['from the middle', 'x'.repeat(9000), 'HEADERS_TOO_LARGE'],
    ['that Node does not show', undefined, 'HEADERS_TOO_LARGE'],
  ]

  test.each(PACKETS)('is checked in the piece that exceeds it: one %s', (_name, packet, code) => {
    const overflow = packet === undefined ? {} : { rawPacket: Buffer.from(packet) }
    expect(headOverflow(overflow, PORT_LIMITS).code).toBe(code)
  })
})
