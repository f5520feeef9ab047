/** Answers to requests whose body is still on its way: they must arrive, and the rest must be bounded. */

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { listen, MemoryLog } from '../../src/server.ts'
import { guardedServer } from './auth/support.ts'
import { gatewayOn } from './streams/server.ts'
import { startServer } from './support.ts'

const MB = 1024 * 1024
const TRIES = 25
const json = { 'content-type': 'application/json' }

const REFUSED = {
  'too large': ['/api/v2/submit', 12, 413],
  'too large for a vendor API': ['/v1/chat/completions', 44, 413],
  'a long address': [`/${'x'.repeat(9000)}`, 12, 414],
} as const

describe('an error response arrives while the body is being sent', {
  timeout: 60_000,
  tags: ['slow'],
}, () => {
  test.each(Object.entries(REFUSED))('%s', async (_name, [path, megabytes, status]) => {
    const { url } = await startServer()
    const body = 'x'.repeat(megabytes * MB)
    const statuses = new Set<number>()
    for (let each = 0; each < TRIES; each++) {
      const response = await fetch(`${url}${path}`, { method: 'POST', headers: json, body })
      statuses.add(response.status)
      await response.arrayBuffer()
    }
    expect([...statuses]).toEqual([status])
  })

  test('without a key', async () => {
    const { url } = await guardedServer()
    for (let each = 0; each < TRIES; each++) {
      const init = { method: 'POST', headers: json, body: 'x'.repeat(12 * MB) }
      expect((await fetch(`${url}/api/v2/submit`, init)).status).toBe(401)
    }
  })
})

/** Sends everything before it reads, as some HTTP clients do. */
async function uploadThenRead(port: number, path: string, bytes: number): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' }).pause()
  const failed = once(socket, 'error').then(([error]) => `${error}`)
  const head = `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n`
  socket.write(`${head}content-length: ${bytes}\r\n\r\n`)
  const sent = new Promise<void>((resolve) => socket.write(Buffer.alloc(bytes), () => resolve()))
  const broken = await Promise.race([sent, failed])
  if (broken !== undefined) return broken
  const answer = once(socket.resume(), 'data').then(([chunk]) => `${chunk}`)
  const received = await Promise.race([answer, failed])
  socket.destroy()
  return received
}

test('a client that sends a whole body above the limit reads the error', async () => {
  const { url } = await startServer()
  const { port } = new URL(url)
  const answer = await uploadThenRead(Number(port), '/v1/chat/completions', 44 * MB)
  expect(answer).toMatch(/^HTTP\/1\.1 413 /)
})

async function refusedUpload(port: number) {
  const socket = connect({ port, host: '127.0.0.1' })
  socket.on('error', () => {})
  const head = 'POST /api/v2/submit HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n'
  socket.write(`${head}content-length: ${1024 * MB}\r\n\r\n`)
  const [answer] = (await once(socket, 'data')) as [Buffer]
  expect(answer.toString()).toMatch(/^HTTP\/1\.1 413 /)
  return socket
}

/** Resolves when the connection is closed, also by a reset. */
function closing(socket: Socket): Promise<unknown> {
  return new Promise((resolve) => socket.once('close', resolve))
}

describe('a client that keeps sending after the error is disconnected', () => {
  test('after 16 MB more than a body may have', async () => {
    const { url } = await startServer()
    const socket = await refusedUpload(Number(new URL(url).port))
    let sent = 0
    const closed = closing(socket)
    const pour = () => {
      while (!socket.destroyed && sent < 512 * MB) {
        sent += MB
        if (!socket.write(Buffer.alloc(MB))) return
      }
    }
    socket.on('drain', pour)
    pour()
    await closed
    expect(sent).toBeGreaterThanOrEqual(48 * MB)
    expect(sent).toBeLessThan(96 * MB)
  })

  test('after two seconds', async () => {
    const clock = fakeClock()
    const listening = await listen(gatewayOn(new MemoryLog()), { port: 0, clock })
    onTestFinished(() => {
      const closed = listening.close()
      void clock.advance(10_000)
      return closed
    })
    const socket = await refusedUpload(Number(new URL(listening.url).port))
    const closed = closing(socket)
    await expect.poll(() => clock.pending()).toBeGreaterThan(0)
    await clock.advance(1999)
    expect(socket.destroyed).toBe(false)
    await clock.advance(1)
    await closed
  })
})
