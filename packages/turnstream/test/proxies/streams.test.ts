import { connect } from 'node:tls'
import { describe, expect, onTestFinished, test } from 'vitest'
import { CountingLog } from '../server/streams/counting-log.ts'
import { type ServerOptions, startServer } from '../server/support.ts'
import { H2Client } from './h2-client.ts'
import { startProxy } from './proxy.ts'
import { HOST, PROXIES, type ProxyName, replaceAll } from './recipes.ts'

// Two programs are started for each of these, on a machine that may have much else to do.
const TIMEOUT = 30_000

type Change = (recipe: string) => string

/** A gateway, a proxy before it, and one connection to that. */
async function served(name: ProxyName, options: ServerOptions = {}, change?: Change) {
  const log = new CountingLog()
  const server = await startServer({ log, ...options })
  const proxy = await startProxy(name, { upstreams: [server.url], ...(change && { change }) })
  return { log, server, proxy, client: await H2Client.open(proxy) }
}

type Served = Awaited<ReturnType<typeof served>>

/** A turn that was submitted through the proxy and waits for the test. */
async function submitted({ server, client }: Served, turnId = 'turn') {
  const next = server.held.nextCall()
  const answer = await client.post('/api/v2/submit', { prompt: 'Hi', providerId: 'held', turnId })
  expect(answer.json).toMatchObject({ turnId })
  expect(answer.status).toBe(202)
  return await next
}

const STREAM = '/api/v2/stream/turn'

describe.each(PROXIES)('%s', { timeout: TIMEOUT }, (name) => {
  test('forwards each frame immediately', async () => {
    const all = await served(name)
    const call = await submitted(all)
    const reader = all.client.ask(STREAM)
    for (const word of ['one', 'two', 'three', 'four', 'five']) {
      call.say(word)
      // The provider says the next word only once this one is here.
      await reader.until(({ text }) => text.includes(`"delta_content":"${word}"`))
    }
    call.finish()
    await reader.ended()
    expect(reader.data.at(-1)).toContain('"type":"response_done"')
    expect(reader.error).toBeUndefined()
  })

  test('streams the response to a submit', async () => {
    const { server, client } = await served(name)
    const next = server.held.nextCall()
    const body = JSON.stringify({ prompt: 'Hi', providerId: 'held', turnId: 'turn' })
    const headers = { 'content-type': 'application/json' }
    const reader = client.ask('/xapi/threads/thread/turn', { method: 'POST', headers, body })
    const call = await next
    call.say('This is more than the first step of a text, and so is shown. ')
    await reader.until(({ text }) => text.includes('This is more'))
    call.finish()
    await reader.ended()
    expect(reader.data.at(-1)).toContain('"type":"turn_complete"')
  })

  test('leaves frames unchanged, uncompressed and uncached', async () => {
    const all = await served(name)
    await submitted(all)
    const headers = { 'accept-encoding': 'gzip, br, zstd' }
    const reader = all.client.ask(STREAM, { headers })
    await reader.until(({ text }) => text.includes('response_start'))
    expect(reader.headers['content-type']).toMatch(/^text\/event-stream/)
    expect(reader.headers['content-encoding']).toBeUndefined()
    expect(reader.headers['cache-control']).toBe('no-cache, no-transform')
    expect(reader.headers['strict-transport-security']).toBe('max-age=31536000')
    expect(reader.headers['x-turn-id']).toBe('turn')
  })

  test('carries 40 streams on one connection', async () => {
    const all = await served(name)
    const call = await submitted(all)
    const readers = Array.from({ length: 40 }, () => all.client.ask(STREAM))
    for (const reader of readers) await reader.until(({ text }) => text.includes('item_start'))
    await all.log.untilReading(40)
    call.say('Hello, all')
    for (const reader of readers) await reader.until(({ text }) => text.includes('Hello, all'))
    expect(readers.filter(({ isOver }) => isOver)).toEqual([])
  })

  test('closes the upstream connection of a reader that disconnects, and no other', async () => {
    const all = await served(name)
    const call = await submitted(all)
    const readers = Array.from({ length: 3 }, () => all.client.ask(STREAM))
    const [stays, ...leave] = readers
    for (const reader of readers) await reader.until(({ text }) => text.includes('item_start'))
    await all.log.untilReading(3)
    for (const reader of leave) reader.reset()
    await all.log.untilReading(1)
    call.say('still here')
    await stays?.until(({ text }) => text.includes('still here'))
    expect(stays?.isOver).toBe(false)
    all.client.session.destroy()
    await all.log.untilReading(0)
  })

  test('forwards the cursor, so a reader can resume', async () => {
    const all = await served(name)
    const call = await submitted(all)
    const first = all.client.ask(STREAM)
    call.say('one')
    await first.until(({ text }) => text.includes('"one"'))
    first.reset()
    call.say('two')
    const second = all.client.ask(STREAM, { headers: { 'last-event-id': first.cursor } })
    await second.until(({ text }) => text.includes('"two"'))
    expect(second.data).toHaveLength(1)
    call.finish()
    await second.ended()
    const whole = all.client.ask(STREAM)
    await whole.ended()
    expect([...first.data, ...second.data]).toEqual(whole.data)
  })

  test('forwards the request id both ways', async () => {
    const { client } = await served(name)
    const headers = { 'x-request-id': 'chosen-by-the-client' }
    const named = client.ask('/api/v2/runs/unknown', { headers })
    const unnamed = client.ask('/api/v2/runs/unknown')
    await Promise.all([named.ended(), unnamed.ended()])
    expect(named.headers['x-request-id']).toBe('chosen-by-the-client')
    expect(unnamed.headers['x-request-id']).toMatch(/^[\w-]{36}$/)
  })
})

describe.each(PROXIES)('the read timeout of %s', { timeout: TIMEOUT, tags: ['slow'] }, (name) => {
  // As much shorter than in the recipe as the heartbeat is: a second to a quarter of it.
  const short: Record<ProxyName, Change> = {
    nginx: (text) => {
      const impatient = replaceAll(text, [['proxy_read_timeout 60s;', 'proxy_read_timeout 1s;']])
      return replaceAll(impatient, [['client_header_timeout 20s;', 'client_header_timeout 1s;']])
    },
    caddy: (text) => {
      const impatient = replaceAll(text, [['read_timeout 60s', 'read_timeout 1s']])
      return replaceAll(impatient, [
        ['read_header 20s', 'read_header 1s'],
        ['idle 75s', 'idle 1s'],
      ])
    },
  }

  test('is longer than the heartbeat interval of a silent turn', async () => {
    const all = await served(name, { heartbeatMs: 250 }, short[name])
    const call = await submitted(all)
    const reader = all.client.ask(STREAM)
    // More than two seconds without a word.
    await reader.until(({ beats }) => beats > 8)
    call.say('at last')
    await reader.until(({ text }) => text.includes('at last'))
    expect(reader.isOver).toBe(false)
  })

  test('is also longer for an HTTP/1.1 client', async () => {
    const all = await served(name, { heartbeatMs: 250 }, short[name])
    await submitted(all)
    const { port, certificate: ca } = all.proxy
    const socket = connect({ host: '127.0.0.1', port, servername: HOST, ca })
    onTestFinished(() => void socket.destroy())
    socket.write(`GET ${STREAM} HTTP/1.1\r\nhost: ${HOST}\r\n\r\n`)
    let beats = 0
    for await (const text of socket.setEncoding('utf8') as AsyncIterable<string>) {
      if (text.includes(': heartbeat')) beats += 1
      if (beats > 8) break
    }
    expect(beats).toBe(9)
  })

  test('ends the stream of a gateway that sends nothing', async () => {
    const all = await served(name, {}, short[name])
    await submitted(all)
    const reader = all.client.ask(STREAM)
    await reader.until(({ text }) => text.includes('item_start'))
    await reader.ended()
    expect(reader.text).not.toContain('response_done')
    await all.log.untilReading(0)
  })
})
