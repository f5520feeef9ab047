import { describe, expect, test } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { fakeClock } from '../../../conformance/src/index.ts'
import { isStreamEvent, type StreamEventPayload, TurnstreamError } from '../../../core/src/index.ts'
import { httpProvider } from '../../src/providers/http-provider.ts'
import {
  collect,
  collectWith,
  last,
  request,
  run,
  STOP,
  setUp,
  TEXT,
  vendorOf,
} from './http-support.ts'
import { sse } from './vendor-server.ts'

describe('a response', () => {
  test('is emitted as events with ids, times and one end', async () => {
    const { provider, server } = await setUp(sse(TEXT, STOP, '[DONE]'))
    const events = await collect(provider.stream(request, run))
    expect(events.map(({ type }) => type)).toEqual([
      'response_start',
      'item_start',
      'item_delta',
      'item_done',
      'response_done',
    ])
    expect(events.every(isStreamEvent)).toBe(true)
    expect(new Set(events.map(({ event_id }) => event_id)).size).toBe(5)
    expect(events.every(({ run_id }) => run_id === 'run')).toBe(true)
    expect(events[0]?.payload).toMatchObject({ provider_id: 'test', turn_id: 'turn' })
    expect(server.bodies).toEqual(['{"model":"m"}'])
  })

  test('is passed on chunk by chunk, without waiting while there is room', async () => {
    const frames = `${`data: ${TEXT}\n\n`.repeat(200)}data: ${STOP}\n\ndata: [DONE]\n\n`
    const fetch = () => Promise.resolve(new Response(frames))
    const { provider } = await setUp(sse(), { fetch })
    const payloads: StreamEventPayload[] = []
    let inFirstTurn = 0
    await provider.stream(request, run).consume((payload) => {
      if (payloads.length === 0) queueMicrotask(() => (inFirstTurn = payloads.length))
      payloads.push(payload)
    })
    expect(payloads).toHaveLength(204)
    expect(inFirstTurn).toBe(204)
  })

  test('waits for a reader with a full buffer and loses nothing', async () => {
    const frames = `${`data: ${TEXT}\n\n`.repeat(600)}data: ${STOP}\n\ndata: [DONE]\n\n`
    const fetch = () => Promise.resolve(new Response(frames))
    const { provider } = await setUp(sse(), { fetch })
    const stream = provider.stream(request, run)
    await eventually(() => expect(stream.getBufferSize()).toBe(256))
    expect(await collect(stream)).toHaveLength(604)
  })

  test('that ends early is truncated, open items first', async () => {
    const { provider } = await setUp(sse(TEXT))
    const events = await collect(provider.stream(request, run))
    expect(events.slice(-2).map(({ payload }) => payload)).toMatchObject([
      { type: 'item_error', error: { code: 'UPSTREAM_TRUNCATED' } },
      { type: 'response_error', error: { code: 'UPSTREAM_TRUNCATED' } },
    ])
  })

  test('whose socket breaks is truncated or unreachable, never a success', async () => {
    const { provider, server } = await setUp((response) => {
      response.writeHead(200)
      response.write(`data: ${TEXT}\n\n`, () => response.destroy())
    })
    const events = await collect(provider.stream(request, run))
    expect(last(events)).toMatchObject({
      type: 'response_error',
      error: { code: 'UPSTREAM_UNREACHABLE' },
    })
    expect(server.bodies).toHaveLength(1)
  })

  test.each([
    ['a page of HTML', '<html><body>Bad gateway</body></html>'],
    ['a page of HTML after blank lines', '\r\n\n <!doctype html>\n<title>data: {}</title>\n\n'],
    ['a complete response, not streamed', '{"choices":[{"message":{"content":"Hi"}}]}'],
    ['a list of answers', '[{"error":{"message":"No"}}]\n\n'],
    ['a broken frame', `data: ${TEXT}\n\ndata: {"choices":[{\n\n`],
  ])('that is %s with status 200 is malformed and not retried', async (_name, body) => {
    const { provider, server } = await setUp((response) => {
      response.writeHead(200)
      response.end(body)
    })
    const events = await collect(provider.stream(request, { ...run }))
    expect(last(events)).toMatchObject({
      type: 'response_error',
      error: { code: 'UPSTREAM_MALFORMED' },
    })
    expect(events.filter(({ type }) => type === 'response_done')).toEqual([])
    expect(server.bodies).toHaveLength(1)
  })
})

describe('a failed request', () => {
  test.each([400, 401, 403, 404, 422])('with status %i is not retried', async (status) => {
    const { provider, server } = await setUp((response) => {
      response.writeHead(status)
      response.end('{"error":{"message":"No such model"}}')
    })
    const events = await collect(provider.stream(request, run))
    expect(events.map(({ payload }) => payload)).toMatchObject([
      { type: 'response_start' },
      { type: 'response_error', error: { code: `HTTP_${status}`, message: 'No such model' } },
    ])
    expect(server.bodies).toHaveLength(1)
  })

  const CODED: [status: number, error: object, code: string][] = [
    [429, { message: 'no', code: 'insufficient_quota' }, 'insufficient_quota'],
    [429, { message: 'no', type: 'insufficient_quota', code: null }, 'insufficient_quota'],
    [400, { message: 'no', code: 'context_length_exceeded' }, 'context_length_exceeded'],
    [400, { message: 'prompt is too long: 9 tokens > 8 maximum' }, 'context_length_exceeded'],
    [400, { message: 'The input token count (9) exceeds the maximum' }, 'context_length_exceeded'],
    [400, { message: 'no', code: 'something_else' }, 'HTTP_400'],
  ]

  test.each(CODED)('with status %i and %j has the code %s, and is not retried', async (...row) => {
    const [status, error, code] = row
    const { provider, server } = await setUp((response) => {
      response.writeHead(status)
      response.end(JSON.stringify({ error }))
    })
    const events = await collect(provider.stream(request, run))
    expect(last(events)).toMatchObject({ type: 'response_error', error: { code } })
    expect(server.bodies).toHaveLength(1)
  })

  test.each([429, 500, 502, 503, 529])('with status %i is retried', async (status) => {
    const clock = fakeClock()
    const { provider, server } = await setUp(
      (response, incoming, count) => {
        if (count === 3) return sse(TEXT, STOP)(response, incoming, count)
        response.writeHead(status)
        response.end('busy')
      },
      { clock, random: () => 1 },
    )
    const events = await collectWith(clock, provider.stream(request, run))
    expect(last(events)).toMatchObject({ type: 'response_done' })
    expect(server.bodies).toHaveLength(3)
  })

  test('is abandoned after maxRetries with the last reason', async () => {
    const clock = fakeClock()
    const { provider, server } = await setUp(
      (response) => {
        response.writeHead(503)
        response.end('overloaded')
      },
      { clock, maxRetries: 1 },
    )
    const events = await collectWith(clock, provider.stream(request, run))
    expect(last(events)).toMatchObject({ error: { code: 'HTTP_503', message: 'overloaded' } })
    expect(server.bodies).toHaveLength(2)
  })

  test('waits as long as retry-after says', async () => {
    const clock = fakeClock()
    const answered: number[] = []
    const { provider } = await setUp(
      (response, incoming, count) => {
        answered.push(clock.now())
        if (count === 2) return sse(TEXT, STOP)(response, incoming, count)
        response.writeHead(429, { 'retry-after': '30' })
        response.end()
      },
      { clock },
    )
    await collectWith(clock, provider.stream(request, run))
    expect((answered[1] ?? 0) - (answered[0] ?? 0)).toBeGreaterThanOrEqual(30_000)
  })

  test('is not retried when retry-after is too long', async () => {
    const { provider, server } = await setUp((response) => {
      response.writeHead(429, { 'retry-after': '3600' })
      response.end('slow down')
    })
    const events = await collect(provider.stream(request, run))
    expect(last(events)).toMatchObject({ error: { code: 'HTTP_429', message: 'slow down' } })
    expect(server.bodies).toHaveLength(1)
  })

  test('is never retried after the first event', async () => {
    const { provider, server } = await setUp((response) => {
      response.writeHead(200)
      response.write(`data: ${TEXT}\n\n`, () => response.destroy())
    })
    await collect(provider.stream(request, run))
    expect(server.bodies).toHaveLength(1)
  })

  test('without a server is unreachable', async () => {
    const { provider, server } = await setUp(sse(STOP), { maxRetries: 0 })
    await server.close()
    const events = await collect(provider.stream(request, run))
    expect(last(events)).toMatchObject({ error: { code: 'UPSTREAM_UNREACHABLE' } })
  })

  test('that cannot be built reports why', async () => {
    const buildRequest = () => {
      throw new TurnstreamError('OPTION_INVALID', 'topP')
    }
    const provider = httpProvider(vendorOf(buildRequest), {})
    const events = await collect(provider.stream(request, run))
    expect(last(events)).toMatchObject({ error: { code: 'OPTION_INVALID' } })
  })
})
