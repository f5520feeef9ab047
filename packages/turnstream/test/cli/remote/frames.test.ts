import type { ServerResponse } from 'node:http'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { Gateway } from '../../../src/cli/gateway.ts'
import { type Answer, serverWith, sse } from '../sse-server.ts'
import { freePort } from '../support.ts'

beforeEach(() => {
  vi.spyOn(Math, 'random').mockReturnValue(1)
})

/** The frames of a gateway, with waits that are over as soon as they have begun. */
function framesOf(url: string, from?: string) {
  const clock = fakeClock()
  const breaks: number[] = []
  const frames = new Gateway(url, clock).frames('/stream', from, (ms) => {
    breaks.push(ms)
    setImmediate(() => void clock.advance(ms))
  })
  return { frames, clock, breaks }
}

async function read(frames: ReturnType<Gateway['frames']>, count = Infinity): Promise<string[]> {
  const seen: string[] = []
  for await (const { data, id } of frames) {
    seen.push(`${id} ${data}`)
    if (seen.length === count) break
  }
  return seen
}

describe('a broken stream', () => {
  test('resumes after the last frame without duplicates', async () => {
    const { url, cursors } = await serverWith(
      (response) => sse(response).end('retry: 1000\n\nid: 0-0\n\nid: 1-1\ndata: a\n\nid: 1-2\nda'),
      (response) => sse(response).end('id: 1-1\n\nid: 1-2\ndata: b\n\n'),
      (response) => response.writeHead(204).end(),
    )
    const { frames, breaks } = framesOf(url)
    expect(await read(frames)).toEqual(['1-1 a', '1-2 b'])
    expect(cursors).toEqual([undefined, '1-1', '1-2'])
    expect(breaks).toEqual([500, 500])
  })

  test('resumes from the initial cursor when it breaks before the first frame', async () => {
    const { url, cursors } = await serverWith(
      (response) => sse(response).end('id: 1-7\n\n'),
      (response) => response.writeHead(204).end(),
    )
    const { frames } = framesOf(url, '1-7')
    await read(frames)
    expect(cursors).toEqual(['1-7', '1-7'])
  })

  test('resumes before a block when it breaks inside it', async () => {
    const { url, cursors } = await serverWith(
      (response) => sse(response).end('id: 0-0\n\ndata: a\n\ndata: b\n\n'),
      (response) => response.writeHead(204).end(),
    )
    const { frames } = framesOf(url)
    expect(await read(frames)).toEqual(['0-0 a', '0-0 b'])
    expect(cursors).toEqual([undefined, '0-0'])
  })

  test.each([408, 429, 500, 502, 503, 504])('retries after status %i', async (status) => {
    const { url } = await serverWith(
      (response) => response.writeHead(status).end(),
      (response) => sse(response).end('id: 1-1\ndata: a\n\n'),
    )
    const { frames } = framesOf(url)
    expect(await read(frames, 1)).toEqual(['1-1 a'])
  })

  test('is abandoned after repeated failures with growing delays', async () => {
    const { url, cursors } = await serverWith((response) => response.destroy())
    const { frames, breaks } = framesOf(url)
    await expect(read(frames)).rejects.toMatchObject({ code: 'CONNECTION_LOST' })
    expect(cursors).toHaveLength(10)
    expect(breaks).toEqual([500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000, 10_000])
  })

  test('resets the attempts when a frame arrives', async () => {
    const answers: Answer[] = Array.from({ length: 15 }, (_, at) => (response) => {
      sse(response).end(`id: 1-${at + 1}\ndata: ${at + 1}\n\n`)
    })
    const { url } = await serverWith(...answers)
    const { frames } = framesOf(url)
    expect(await read(frames, 15)).toHaveLength(15)
  })

  test('reconnects with jitter', async () => {
    const { url } = await serverWith(
      (response) => response.destroy(),
      (response) => response.writeHead(204).end(),
    )
    vi.spyOn(Math, 'random').mockReturnValue(0)
    const { frames, breaks } = framesOf(url)
    await read(frames)
    expect(breaks).toEqual([250])
  })
})

describe('a silent stream', () => {
  test('is abandoned after three heartbeats; comments count as activity', async () => {
    let stream: ServerResponse | undefined
    const { url, cursors } = await serverWith(
      (response) => {
        stream = sse(response)
        stream.write('id: 1-1\ndata: a\n\n')
      },
      (response) => response.writeHead(204).end(),
    )
    const { frames, clock } = framesOf(url)
    expect(await frames.next()).toMatchObject({ value: { data: 'a' } })
    await clock.advance(44_000)
    stream?.write(': heartbeat\n\nid: 1-2\ndata: b\n\n')
    expect(await frames.next()).toMatchObject({ value: { data: 'b' } })
    await clock.advance(44_000)
    expect(cursors).toEqual([undefined])
    const end = frames.next()
    await clock.advance(1000)
    expect(await end).toMatchObject({ done: true })
    expect(cursors).toEqual([undefined, '1-2'])
  })
})

describe('does not retry', () => {
  test("a rejected request, and reports the gateway's message", async () => {
    const { url, cursors } = await serverWith((response) => {
      response.writeHead(404).end('{"error":{"code":"TURN_UNKNOWN","message":"Unknown turn"}}')
    })
    const { frames } = framesOf(url)
    await expect(read(frames)).rejects.toMatchObject({
      code: 'TURN_UNKNOWN',
      message: 'Unknown turn',
    })
    expect(cursors).toHaveLength(1)
  })

  test('a rejection by another server', async () => {
    const { url } = await serverWith((response) => response.writeHead(403).end('<html>'))
    const { frames } = framesOf(url)
    await expect(read(frames)).rejects.toMatchObject({ code: 'HTTP_403' })
  })

  test('an unreachable gateway', async () => {
    const { frames } = framesOf(`http://127.0.0.1:${await freePort()}`)
    await expect(read(frames)).rejects.toThrow('start one with "turnstream serve --port')
  })

  test('after the reader has left', async () => {
    const { url, cursors } = await serverWith((response) => sse(response).write('data: a\n\n'))
    const { frames, clock } = framesOf(url)
    expect(await read(frames, 1)).toEqual([' a'])
    expect([cursors.length, clock.pending()]).toEqual([1, 0])
  })
})
