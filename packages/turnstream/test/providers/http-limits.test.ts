import { describe, expect, test } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { fakeClock } from '../../../conformance/src/index.ts'
import { collect, collectWith, last, request, run, STOP, setUp, TEXT } from './http-support.ts'
import { type Answer, sse } from './vendor-server.ts'

describe('silence', () => {
  test.each([
    ['firstEventMs', () => {}],
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
      firstEventMs: Infinity,
      betweenEventsMs: Infinity,
      stallMs: Infinity,
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

test.each([
  ['no headers', () => {}],
  [
    'no event',
    (response) => {
      response.writeHead(200)
      response.flushHeaders()
    },
  ],
  [
    'the time-out of a gateway',
    (response) => {
      response.writeHead(504)
      response.end()
    },
  ],
] satisfies [string, Answer][])(
  'a call that ended with %s is retried only when configured',
  async (_name, answer) => {
    for (const [retryTimeouts, calls] of [
      [false, 1],
      [true, 3],
    ] as const) {
      const clock = fakeClock()
      const { provider, server } = await setUp(answer, { clock, retryTimeouts })
      await collectWith(clock, provider.stream(request, run))
      expect(server.bodies).toHaveLength(calls)
    }
  },
)

test('a cold model may take two minutes to send headers', async () => {
  const clock = fakeClock()
  let answer = (): void => {}
  const { provider, server } = await setUp(
    (response, incoming, count) => {
      answer = () => void sse(TEXT, STOP)(response, incoming, count)
    },
    { clock },
  )
  const events = collect(provider.stream(request, run))
  await eventually(() => expect(server.bodies).toHaveLength(1))
  await clock.advance(119_000)
  answer()
  expect(last(await events)).toMatchObject({ type: 'response_done' })
  expect(server.bodies).toHaveLength(1)
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

  test('by the signal ends the stream and the request', async () => {
    const { provider, closed } = await silentProvider()
    const controller = new AbortController()
    const stream = provider.stream(request, run, controller.signal)
    await expect(async () => {
      for await (const event of stream) if (event.type === 'item_delta') controller.abort()
    }).rejects.toMatchObject({ code: 'ABORTED' })
    await expect(closed).resolves.toBeUndefined()
  })

  test('by the reader ends the request', async () => {
    const { provider, closed } = await silentProvider()
    const stream = provider.stream(request, run)
    await expect(async () => {
      for await (const event of stream) if (event.type === 'item_delta') stream.abort()
    }).rejects.toMatchObject({ code: 'ABORTED' })
    await expect(closed).resolves.toBeUndefined()
  })

  test('before the request sends none', async () => {
    const { provider, server } = await setUp(sse(STOP))
    const stream = provider.stream(request, run, AbortSignal.abort())
    await expect(collect(stream)).rejects.toMatchObject({ code: 'ABORTED' })
    expect(server.bodies).toEqual([])
  })
})

test('a slow reader slows the request: the buffer is bounded', async () => {
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
