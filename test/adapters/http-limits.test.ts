import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../src/testing/fake-clock.ts'
import { collect, collectWith, last, request, run, STOP, setUp, TEXT } from './http-support.ts'
import { type Answer, sse } from './vendor-server.ts'

describe('silence', () => {
  test.each([
    ['connectMs', () => {}],
    [
      'firstEventMs',
      (response) => {
        response.writeHead(200)
        response.flushHeaders()
      },
    ],
    [
      'betweenEventsMs',
      (response) => {
        response.writeHead(200)
        response.write(`data: ${TEXT}\n\n`)
      },
    ],
  ] satisfies [string, Answer][])('longer than %s is a timeout', async (limit, answer) => {
    const clock = fakeClock()
    const timeLimits = {
      connectMs: Infinity,
      firstEventMs: Infinity,
      betweenEventsMs: Infinity,
      [limit]: 5000,
    }
    const { provider } = await setUp(answer, { clock, timeLimits, maxRetries: 0 })
    const events = await collectWith(clock, provider.stream(request, run))
    expect(last(events)).toMatchObject({
      type: 'response_error',
      error: { code: 'UPSTREAM_TIMEOUT', message: expect.stringContaining('5000 ms') },
    })
  })
})

describe('abort', () => {
  /** A provider that says one thing and falls silent, and a promise of its socket being closed. */
  async function silentProvider() {
    let resolveClosed: () => void = () => {}
    const closed = new Promise<void>((resolve) => {
      resolveClosed = resolve
    })
    const { provider } = await setUp((response) => {
      response.on('close', resolveClosed)
      response.writeHead(200)
      response.write(`data: ${TEXT}\n\n`)
    })
    return { provider, closed }
  }

  test('by the signal ends the stream and the call', async () => {
    const { provider, closed } = await silentProvider()
    const controller = new AbortController()
    const stream = provider.stream(request, run, controller.signal)
    await expect(async () => {
      for await (const event of stream) if (event.type === 'item_delta') controller.abort()
    }).rejects.toMatchObject({ code: 'ABORTED' })
    await expect(closed).resolves.toBeUndefined()
  })

  test('by the reader ends the call, too', async () => {
    const { provider, closed } = await silentProvider()
    const stream = provider.stream(request, run)
    await expect(async () => {
      for await (const event of stream) if (event.type === 'item_delta') stream.abort()
    }).rejects.toMatchObject({ code: 'ABORTED' })
    await expect(closed).resolves.toBeUndefined()
  })

  test('before the call makes none', async () => {
    const { provider, server } = await setUp(sse(STOP))
    const stream = provider.stream(request, run, AbortSignal.abort())
    await expect(collect(stream)).rejects.toMatchObject({ code: 'ABORTED' })
    expect(server.bodies).toEqual([])
  })
})

test('a slow reader slows the call: no more is buffered than fits', async () => {
  const count = 5000
  const frames = Array.from({ length: count }, () => TEXT)
  const { provider } = await setUp(sse(...frames, STOP))
  const stream = provider.stream(request, run)
  let deltas = 0
  for await (const event of stream) {
    expect(stream.getBufferSize()).toBeLessThanOrEqual(256)
    if (event.type === 'item_delta') deltas += 1
  }
  expect(deltas).toBe(count)
})
