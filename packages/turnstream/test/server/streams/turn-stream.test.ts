import { createParser } from 'eventsource-parser'
import { describe, expect, test } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { SseDecoder } from '../../../../core/src/index.ts'
import { MemoryLog } from '../../../src/server.ts'
import { DIALECTS } from './dialects.ts'
import { codeOf, framesOf, get, RawClient, type RawRequest } from './raw-client.ts'
import { createSealed, createTurn, finishedTurn, serve } from './server.ts'
import { eventsOf, outputsOf, recordsOf } from './turns.ts'

const V2 = '/api/v2/stream/turn'
const XAPI = '/xapi/turns/turn/stream'

describe('a stream', () => {
  test('has headers against buffering, caching and compression', async () => {
    const { port } = await serve(await finishedTurn(new MemoryLog()))
    const headers = { 'accept-encoding': 'gzip, br', 'x-request-id': 'mine' }
    const answer = await get(port, XAPI, { headers })
    expect(answer.status).toBe(200)
    expect(answer.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      connection: 'keep-alive',
      'x-request-id': 'mine',
      'x-turn-id': 'turn',
      'x-thread-id': 'thread',
    })
    expect(answer.headers).not.toHaveProperty('content-encoding')
    expect(answer.body.toString()).toContain('Another text altogether.')
  })

  test.each([V2, XAPI])('W1 %s starts with retry and cursor before any record', async (path) => {
    const log = new MemoryLog()
    await createTurn(log, 'turn')
    const { port } = await serve(log)
    const client = await RawClient.open(port, path)
    await client.until(({ body }) => body.length > 0)
    expect(client.body.toString()).toBe('retry: 1000\n: heartbeat every 15000 ms\n\nid: 0-0\n\n')
    client.close()
  })

  test('sends headers and first bytes together', async () => {
    const log = new MemoryLog()
    await createTurn(log, 'turn')
    const { port } = await serve(log)
    const client = await RawClient.open(port, XAPI)
    await client.changed()
    expect(client.body.toString()).toContain('id: 0-0\n\n')
    client.close()
  })

  test('W1 sends v2 events as stored, each with its offset and no name', async () => {
    const { port } = await serve(await finishedTurn(new MemoryLog()))
    const frames = framesOf((await get(port, V2)).body)
    const expected = eventsOf('turn').map((data, index) => `id: 1-${index + 1}\ndata: ${data}\n\n`)
    expect(frames.slice(2)).toEqual(expected)
  })

  test('L6 has an id only on the last frame of the xapi history', async () => {
    const { port } = await serve(await finishedTurn(new MemoryLog()))
    const frames = framesOf((await get(port, XAPI)).body).slice(2)
    const last = outputsOf('turn').length
    expect(frames.map((frame) => /^id: (.*)$/m.exec(frame)?.[1])).toEqual([
      ...Array.from({ length: frames.length - 1 }),
      `1-${last}`,
    ])
  })

  test('allows a second request on the same connection', async () => {
    const { port } = await serve(await finishedTurn(new MemoryLog()))
    const client = await RawClient.open(port, XAPI)
    await client.until(({ answer }) => answer.isWhole)
    const { length } = client.bytes
    client.ask(V2)
    await client.until(
      ({ bytes }) => bytes.length > length && bytes.toString().endsWith('0\r\n\r\n'),
    )
    expect(client.bytes.subarray(length).toString()).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
    client.close()
  })

  test('is not chunked for HTTP/1.0, and the connection ends with the turn', async () => {
    const { port } = await serve(await finishedTurn(new MemoryLog()))
    const client = await RawClient.open(port, V2, { version: '1.0' })
    await client.closed()
    expect(client.head?.headers).not.toHaveProperty('transfer-encoding')
    expect(client.body.toString()).toMatch(
      /^retry: 1000\n: heartbeat every 15000 ms\n\nid: 0-0\n\nid: 1-1\ndata: /,
    )
    expect(client.events).toHaveLength(eventsOf('turn').length)
  })

  test.each([
    { path: V2, status: 200 },
    { path: `${V2}?from=1-${eventsOf('turn').length}`, status: 204 },
    { path: '/api/v2/stream/nothing', status: 404 },
  ])('HEAD $path is answered with $status and opens no stream', async ({ path, status }) => {
    const { port } = await serve(await finishedTurn(new MemoryLog()))
    const client = await RawClient.open(port, path, { method: 'HEAD' })
    await client.until(({ head }) => head !== undefined)
    client.ask('/healthz', { headers: { connection: 'close' } })
    await client.closed()
    const [first = '', second = ''] = client.bytes.toString().split(/(?=HTTP\/1\.1 )/)
    expect(first).toMatch(new RegExp(`^HTTP/1\\.1 ${status} .*\\r\\n\\r\\n$`, 's'))
    expect(second).toMatch(/^HTTP\/1\.1 200 /)
  })

  test.each(DIALECTS)('$name is read the same by another parser', async (dialect) => {
    const log = new MemoryLog()
    await createSealed(log, 'turn', dialect.log, recordsOf('turn', dialect.log))
    const { port } = await serve(log)
    const { body } = await get(port, dialect.pathOf('turn'))
    const ours = new SseDecoder().feed(body)
    const theirs: { event: string; data: string }[] = []
    const parser = createParser({
      onEvent: ({ event = '', data }) => {
        theirs.push({ event, data })
      },
    })
    parser.feed(body.toString())
    expect(theirs).toEqual(ours.map(({ event, data }) => ({ event, data })))
  })
})

describe('the start of a stream', () => {
  test.each<RawRequest & { name: string; path: string; first: string }>([
    { name: 'without a cursor', path: V2, first: '1-1' },
    { name: 'with ?from=', path: `${V2}?from=1-3`, first: '1-4' },
    { name: 'with the header', path: V2, headers: { 'last-event-id': '1-5' }, first: '1-6' },
    {
      name: 'with both, by the header',
      path: `${V2}?from=1-3`,
      headers: { 'last-event-id': '1-5' },
      first: '1-6',
    },
    {
      name: 'with an empty header, by ?from=',
      path: `${V2}?from=1-3`,
      headers: { 'last-event-id': '' },
      first: '1-4',
    },
  ])('W2 $name', async ({ path, headers = {}, first }) => {
    const { port } = await serve(await finishedTurn(new MemoryLog()))
    const { body } = await get(port, path, { headers })
    const [, cursor, record = ''] = framesOf(body)
    expect(record.split('\n')[0]).toBe(`id: ${first}`)
    expect(cursor).toMatch(/^id: \d-\d\n\n$/)
  })

  test('a run is found by its own id', async () => {
    const log = new MemoryLog()
    await log.create({ turnId: 'turn', runId: 'run', threadId: 'thread', owner: 'test' }, 60_000)
    const { port } = await serve(log)
    const client = await RawClient.open(port, '/api/v2/stream/run')
    await client.until(({ head }) => head !== undefined)
    expect(client.head?.headers['x-turn-id']).toBe('turn')
    expect((await get(port, V2)).status).toBe(404)
    client.close()
  })

  test.each([
    { at: 'the end', from: (end: number) => `1-${end}` },
    { at: 'a place after the end', from: (end: number) => `1-${end + 1}` },
    { at: 'a place far after the end', from: () => '7-999999' },
  ])('W2 nothing follows $at of an ended turn', async ({ from }) => {
    const { port } = await serve(await finishedTurn(new MemoryLog()))
    for (const { path, count } of [
      { path: V2, count: eventsOf('turn').length },
      { path: XAPI, count: outputsOf('turn').length },
    ]) {
      const answer = await get(port, `${path}?from=${from(count)}`)
      expect(answer.status).toBe(204)
      expect(answer.body).toHaveLength(0)
    }
  })

  test('the end of a log counts even while the other is not sealed', async () => {
    const log = new MemoryLog()
    const lease = await createTurn(log, 'turn')
    await appendTo(log, lease, 'events', recordsOf('turn', 'events'), { seal: true })
    const { port } = await serve(log)
    expect((await get(port, `${V2}?from=1-8`)).status).toBe(204)
    const client = await RawClient.open(port, XAPI)
    await client.until(({ body }) => body.length > 0)
    client.close()
  })

  test.each(['x', '1', '1-', '-1', '1-1-1', '01-1', '1-1%20', '', '1-99999999999999999', '%0a'])(
    'W2 the cursor "%s" is refused',
    async (cursor) => {
      const { port } = await serve(await finishedTurn(new MemoryLog()))
      for (const path of [V2, XAPI]) {
        const answer = await get(port, `${path}?from=${cursor}`)
        expect(answer.status).toBe(400)
        expect(codeOf(answer.body)).toBe('CURSOR_INVALID')
      }
    },
  )
})
