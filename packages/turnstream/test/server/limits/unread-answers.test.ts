/** Clients that ask, and then read slowly, or not at all. */

import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { systemClock } from '../../../../core/src/async/clock.ts'
import { createGateway, listen, type PortLimits, Providers } from '../../../src/server.ts'
import { CountingLog } from '../streams/counting-log.ts'
import { createTurn, NOBODY } from '../streams/server.ts'
import { UNLIMITED } from '../unlimited.ts'
import { Wire } from '../wire.ts'

const MB = 1024 * 1024

/** A server that answers `/big` with more than any socket holds, and what it answered with. */
async function bigServer(port: Partial<PortLimits>) {
  const log = new CountingLog()
  const providers = new Providers([NOBODY])
  const gateway = createGateway({ log, providers, instance: 'test', limits: UNLIMITED })
  const answers: ServerResponse[] = []
  const text = 'x'.repeat(24 * MB)
  gateway.app.get('/big', (c) => {
    answers.push(c.env.outgoing as ServerResponse)
    return c.text(text)
  })
  const listening = await listen(gateway, { ...port, port: 0 })
  onTestFinished(() => listening.close())
  return { log, url: listening.url, answers, size: text.length }
}

const ASK = 'GET /big HTTP/1.1\r\nhost: a\r\n\r\n'

describe('a client that does not read', () => {
  test('has its response cut and its waiting work released', async () => {
    const { url, answers, size } = await bigServer({ writeTimeoutMs: 100 })
    const wire = await Wire.open(url)
    wire.socket.pause()
    wire.send(ASK)
    await expect.poll(() => answers.length).toBe(1)
    const [answer] = answers as [ServerResponse]
    expect(answer.writableLength).toBeGreaterThan(MB)
    await once(answer, 'close')
    expect(answer.req.socket.destroyed).toBe(true)
    wire.socket.resume()
    await wire.closed
    expect(wire.text.length).toBeLessThan(size)
  })

  test('has its stream cut while an idle one continues', async () => {
    const { url, log, answers } = await bigServer({ writeTimeoutMs: 100 })
    const stuck = await createTurn(log, 'stuck', 'thread-of-stuck')
    const silent = await createTurn(log, 'silent', 'thread-of-silent')
    const idle = await Wire.open(url)
    idle.send('GET /xapi/turns/silent/stream HTTP/1.1\r\nhost: a\r\n\r\n')
    await idle.until('id: 0-0')
    const wire = await Wire.open(url)
    wire.send('GET /xapi/turns/stuck/stream HTTP/1.1\r\nhost: a\r\n\r\n')
    await wire.until('id: 0-0')
    await log.untilReading(2)
    wire.socket.pause()
    const data = JSON.stringify({ type: 'a', content: 'x'.repeat(24 * MB) })
    await appendTo(log, stuck, 'processed', [{ seq: 1, data }])
    await log.untilReading(1)
    // For twice as long as that may last, at the least, there was nothing to send to the other one.
    const reader = await Wire.open(url)
    reader.socket.pause()
    reader.send(ASK)
    await expect.poll(() => answers.length).toBe(1)
    await once(answers[0] as ServerResponse, 'close')
    expect(idle.isClosed).toBe(false)
    await appendTo(log, silent, 'processed', [{ seq: 1, data: '{"type":"a","still":"here"}' }])
    await idle.until('still')
    for (const each of [idle, wire, reader]) each.close()
  })

  test('but only reads slowly gets everything', {
    timeout: 60_000,
    tags: ['slow'],
  }, async () => {
    const { url, size } = await bigServer({ writeTimeoutMs: 1000 })
    const wire = await Wire.open(url)
    wire.send(ASK)
    const { socket } = wire
    let read = 0
    let paused = 0
    const startedAt = performance.now()
    socket.removeAllListeners('data')
    for await (const chunk of socket) {
      read += (chunk as string).length
      if (read >= size) break
      // As slow as a reader is that takes three times as long as nothing at all may be taken.
      if (read > (paused + 1) * MB) {
        paused += 1
        await new Promise<void>((resolve) => void systemClock.after(125, resolve))
      }
    }
    expect(read).toBeGreaterThanOrEqual(size)
    expect(performance.now() - startedAt).toBeGreaterThan(2000)
  })

  test('but waits for a slow response gets it', async () => {
    const { url, log, answers } = await bigServer({ writeTimeoutMs: 50 })
    let answer: (() => void) | undefined
    vi.spyOn(log, 'listThreads').mockImplementation(async () => {
      await new Promise<void>((resolve) => {
        answer = resolve
      })
      return { items: [] }
    })
    const waiting = await Wire.open(url)
    waiting.send('GET /api/v2/threads HTTP/1.1\r\nhost: a\r\n\r\n')
    const reader = await Wire.open(url)
    reader.socket.pause()
    reader.send(ASK)
    await expect.poll(() => answers.length).toBe(1)
    await once(answers[0] as ServerResponse, 'close')
    answer?.()
    await waiting.until('"threads"')
    expect(waiting.status).toBe(200)
    for (const each of [waiting, reader]) each.close()
  })
})

describe('data sent after the response headers', () => {
  test('is never answered within the stream, which is cut', async () => {
    const { url, log } = await bigServer({})
    await createTurn(log, 'turn')
    const wire = await Wire.open(url)
    wire.send('GET /xapi/turns/turn/stream HTTP/1.1\r\nhost: a\r\n\r\n')
    await wire.until('id: 0-0')
    wire.send('this is no HTTP\r\n\r\n')
    await wire.closed
    expect(wire.text.match(/HTTP\/1\.1/g)).toHaveLength(1)
    expect(wire.text).not.toContain('REQUEST_INVALID')
  })
})
