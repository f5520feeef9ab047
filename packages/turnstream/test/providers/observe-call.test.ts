import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { ObservedCall } from '../../src/index.ts'
import { collect, collectWith, last, request, run, STOP, setUp, TEXT } from './http-support.ts'
import { sse } from './vendor-server.ts'

/** Notes what an observer is told. */
function observed() {
  const calls: ObservedCall[] = []
  const notes: string[] = []
  const observeCall = (call: ObservedCall) => {
    calls.push(call)
    return {
      response: (status: number, headers: Readonly<Record<string, string>>) => {
        notes.push(`${status} ${headers['content-type'] ?? ''}`)
      },
      chunk: (bytes: Uint8Array) => {
        notes.push(Buffer.from(bytes).toString())
      },
      end: (reason: string) => {
        notes.push(reason)
      },
    }
  }
  return { calls, notes, observeCall }
}

describe('an observer of calls', () => {
  test('gets the request and the response unchanged', async () => {
    const { calls, notes, observeCall } = observed()
    const { provider, server } = await setUp(sse(TEXT, STOP, '[DONE]'), { observeCall })
    await collect(provider.stream(request, { ...run, tenant: 'acme', round: 2 }))
    expect(calls).toMatchObject([
      { ...run, tenant: 'acme', round: 2, attempt: 1, method: 'POST', url: server.url },
    ])
    expect(calls[0]?.body).toBe(server.bodies[0])
    expect(calls[0]?.headers).toMatchObject({ 'content-type': 'application/json' })
    const [status, ...rest] = notes
    expect(status).toBe('200 text/event-stream')
    expect(rest.slice(0, -1).join('')).toContain(`data: ${TEXT}`)
    expect(rest.at(-1)).toBe('complete')
  })

  test('gets every attempt', async () => {
    const { calls, notes, observeCall } = observed()
    const clock = fakeClock()
    const { provider } = await setUp(
      (response, call, count) => {
        if (count > 1) return sse(TEXT, STOP)(response, call, count)
        response.writeHead(503, { 'content-type': 'application/json' }).end('{"error":"busy"}')
      },
      { observeCall, clock },
    )
    await collectWith(clock, provider.stream(request, run))
    expect(calls.map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(notes.slice(0, 3)).toEqual(['503 application/json', '{"error":"busy"}', 'complete'])
    expect(notes.at(-1)).toBe('complete')
  })

  test('is notified that the connection failed', async () => {
    const { notes, observeCall } = observed()
    const options = { observeCall, maxRetries: 0 }
    const { provider } = await setUp((response) => void response.destroy(), options)
    const events = await collect(provider.stream(request, run))
    expect(last(events)).toMatchObject({ error: { code: 'UPSTREAM_UNREACHABLE' } })
    expect(notes).toEqual(['failed'])
  })

  test('is notified that the turn was cancelled', async () => {
    const { notes, observeCall } = observed()
    const { provider } = await setUp(
      (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(`data: ${TEXT}\n\n`)
      },
      { observeCall },
    )
    const stream = provider.stream(request, run)
    for await (const _ of stream.take(1));
    stream.abort()
    await expect.poll(() => notes.at(-1)).toBe('aborted')
  })

  test('may decline a call', async () => {
    const { provider } = await setUp(sse(TEXT, STOP), { observeCall: () => undefined })
    const events = await collect(provider.stream(request, run))
    expect(last(events)?.type).toBe('response_done')
  })
})
