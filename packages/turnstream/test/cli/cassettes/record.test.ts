/** The proxy between official clients and a vendor on this machine. */

import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../../../../test/eventually.ts'
import { systemClock } from '../../../../core/src/async/clock.ts'
import { cassetteEvents } from '../../../../core/src/index.ts'
import { record } from '../../../src/cli/cassettes/record.ts'
import { type Answer, startVendor } from '../../providers/vendor-server.ts'
import { fakeTerminal } from '../fake-terminal.ts'
import { refusingPort, untilTrue } from '../support.ts'
import { readCassetteAt, recordingsIn, responseText, testFolder } from './support.ts'

const KEY = 'sk-live-0123456789abcdef'

interface Recorded {
  readonly file: string
  readonly vendor: string
  readonly status: number
}

/** Starts the proxy in front of a vendor; `end` stops it as a signal would. */
async function start(target: string, ...args: string[]) {
  const cwd = testFolder()
  const { terminal, output, errors, signal } = fakeTerminal([], { clock: systemClock, cwd })
  const running = record.run([target, '--port', '0', '--json', ...args], terminal)
  running.catch(() => {})
  await untilTrue(() => output() !== '')
  const [first = ''] = output().split('\n')
  const { url } = JSON.parse(first) as { url: string }
  const end = async () => {
    signal('SIGTERM')
    return running
  }
  onTestFinished(async () => {
    await end()
  })
  const lines = () =>
    output()
      .trimEnd()
      .split('\n')
      .slice(1)
      .map((line) => JSON.parse(line) as Recorded)
  /** Waits for the nth cassette and reads it. */
  const cassette = async (n = 1) => {
    await eventually(() => expect(lines().length).toBeGreaterThanOrEqual(n))
    const { file } = lines()[n - 1]!
    await eventually(() => expect(readCassetteAt(file).calls[0]?.end).toBeDefined())
    return readCassetteAt(file)
  }
  return { url, cwd, lines, cassette, errors, end }
}

async function vendor(answer: Answer) {
  const server = await startVendor(answer)
  onTestFinished(() => server.close())
  return server
}

/** Sends a fixture in small chunks, each after a macrotask. */
function fixture(name: string): Answer {
  const body = readFileSync(`test/fixtures/${name}`)
  return async (response) => {
    response.writeHead(200, {
      'content-type': 'text/event-stream',
      'set-cookie': 'a=secret-cookie',
    })
    for (let at = 0; at < body.length; at += 50) {
      response.write(body.subarray(at, at + 50))
      await new Promise(setImmediate)
    }
    response.end()
  }
}

describe('official clients', () => {
  test('of OpenAI stream Chat Completions and Responses through it', async () => {
    const chat = fixture('openai-chat/text.sse')
    const responses = fixture('openai-responses/text.sse')
    const server = await vendor((response, request, count) =>
      (request.url?.endsWith('/responses') ? responses : chat)(response, request, count),
    )
    const { url, cassette } = await start(server.url)
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 })
    let text = ''
    const messages = [{ role: 'user' as const, content: 'Hello' }]
    const stream = await client.chat.completions.create({ model: 'm', messages, stream: true })
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
    expect(text).not.toBe('')
    const recorded = await cassette()
    expect(responseText(recorded)).toBe(readFileSync('test/fixtures/openai-chat/text.sse', 'utf8'))
    expect(recorded.calls[0]).toMatchObject({
      request: {
        vendor: 'openai-chat',
        method: 'POST',
        headers: { authorization: '[redacted]' },
        body: { model: 'm', messages, stream: true },
      },
      response: { status: 200, headers: { 'set-cookie': '[redacted]' } },
      end: { reason: 'complete' },
    })
    const done = cassetteEvents(recorded).flatMap(({ event: { payload } }) =>
      payload.type === 'item_done' && payload.final_item.type === 'message'
        ? [payload.final_item.content]
        : [],
    )
    expect(done.join('')).toBe(text)

    let output = ''
    const events = await client.responses.create({ model: 'm', input: 'Hello', stream: true })
    for await (const event of events) {
      if (event.type === 'response.output_text.delta') output += event.delta
    }
    expect(output).not.toBe('')
    expect((await cassette(2)).calls[0]?.request?.vendor).toBe('openai-responses')
  })

  test('of Anthropic, with a key in another header', async () => {
    const server = await vendor(fixture('anthropic-messages/text.sse'))
    const { url, cassette, cwd } = await start(server.url, '--to', 'tapes')
    const client = new Anthropic({ baseURL: url, apiKey: KEY, maxRetries: 0 })
    const stream = client.messages.stream({
      model: 'm',
      max_tokens: 10,
      messages: [{ role: 'user', content: `is ${KEY} a key?` }],
    })
    const text = await stream.finalText()
    expect(text).not.toBe('')
    const recorded = await cassette()
    expect(recorded.calls[0]?.request?.vendor).toBe('anthropic-messages')
    const [name = ''] = recordingsIn(join(cwd, 'tapes'))
    expect(name).toMatch(/^rec-\d{8}-\d{6}-anthropic-messages-1\.cassette\.jsonl$/)
    const file = readFileSync(join(cwd, 'tapes', name), 'utf8')
    expect(file).not.toContain(KEY)
    expect(file).not.toContain('secret-cookie')
  })
})

describe('bytes', () => {
  const STREAM = '/v1/chat/completions'

  test('pass as they arrive, with their times', async () => {
    let next: () => void = () => {}
    const server = await vendor(async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: 1\n\n')
      await new Promise<void>((resolve) => {
        next = resolve
      })
      response.end('data: 2\n\n')
    })
    const { url, cassette } = await start(server.url)
    const response = await fetch(`${url}${STREAM}`, { method: 'POST', body: '{}' })
    const reader = response.body!.getReader()
    // The vendor has not sent the rest, and will not before this arrives.
    expect(Buffer.from((await reader.read()).value!).toString()).toBe('data: 1\n\n')
    next()
    expect(Buffer.from((await reader.read()).value!).toString()).toBe('data: 2\n\n')
    const { chunks } = (await cassette()).calls[0]!
    expect(chunks).toHaveLength(2)
    expect(chunks[1]!.at).toBeGreaterThanOrEqual(chunks[0]!.at)
  })

  test('and headers are not changed, except that compression is disabled', async () => {
    let asked: NodeJS.Dict<string | string[]> = {}
    const body = Buffer.from([0, 255, 10, 13, 226])
    const server = await vendor((response, request) => {
      asked = { ...request.headers, url: request.url }
      response.writeHead(418, 'Teapot', { 'x-odd': 'a', connection: 'x-hop', 'x-hop': '1' })
      response.end(body)
    })
    const { url, cassette } = await start(`${server.url}/base/`)
    const response = await fetch(`${url}${STREAM}?a=b`, {
      method: 'POST',
      body: '{"x":1}',
      headers: { 'x-mine': 'yes', 'content-type': 'application/json' },
    })
    expect(response.status).toBe(418)
    expect(response.statusText).toBe('Teapot')
    expect(response.headers.get('x-odd')).toBe('a')
    expect(response.headers.has('x-hop')).toBe(false)
    expect(Buffer.from(await response.arrayBuffer())).toEqual(body)
    expect(asked).toMatchObject({
      url: `/base${STREAM}?a=b`,
      host: new URL(server.url).host,
      'x-mine': 'yes',
      'accept-encoding': 'identity',
    })
    expect(server.bodies).toEqual(['{"x":1}'])
    const recorded = await cassette()
    expect(Buffer.from(recorded.calls[0]!.chunks[0]!.bytes)).toEqual(body)
  })

  test('beyond the limit pass, and are not recorded', async () => {
    const server = await vendor((response) => {
      response.writeHead(200).write('x'.repeat(2000))
      setImmediate(() => response.end('y'.repeat(2000)))
    })
    const { url, cassette } = await start(server.url, '--max-bytes', '1500')
    const response = await fetch(`${url}${STREAM}`, { method: 'POST', body: '{}' })
    expect((await response.text()).length).toBe(4000)
    expect((await cassette()).calls[0]?.end?.reason).toBe('limit')
  })

  test('of other endpoints pass, and are not recorded', async () => {
    const server = await vendor((response) => void response.end('{"data":[]}'))
    const { url, cwd, end } = await start(server.url)
    expect(await (await fetch(`${url}/v1/models`)).text()).toBe('{"data":[]}')
    expect(await end()).toBe(0)
    expect(recordingsIn(join(cwd, 'cassettes'))).toEqual([])
  })
})

describe('a connection that breaks', () => {
  const call = (url: string, init: RequestInit = {}) =>
    fetch(`${url}/v1/messages`, { method: 'POST', body: '{}', ...init })

  test('on the vendor side also breaks for the client', async () => {
    const server = await vendor((response) => {
      response.writeHead(200, { 'content-length': '1000' }).write('data: 1\n\n')
      setImmediate(() => response.destroy())
    })
    const { url, cassette } = await start(server.url)
    const response = await call(url)
    await expect(response.text()).rejects.toThrow('terminated')
    expect((await cassette()).calls[0]?.end?.reason).toBe('failed')
  })

  test('before there is a response is a 502', async () => {
    const { url, cassette } = await start(`http://127.0.0.1:${await refusingPort()}`)
    const response = await call(url)
    expect(response.status).toBe(502)
    expect(await response.text()).toContain('connection refused')
    const recorded = await cassette()
    expect(recorded.calls[0]).toMatchObject({ end: { reason: 'failed' } })
    expect(recorded.calls[0]?.response).toBeUndefined()
  })

  test('on the side of the client ends the call of the vendor', async () => {
    let isClosed = false
    const server = await vendor((response) => {
      response.once('close', () => {
        isClosed = true
      })
      response.writeHead(200).write('data: 1\n\n')
    })
    const { url, cassette } = await start(server.url)
    const abort = new AbortController()
    const response = await call(url, { signal: abort.signal })
    await response.body!.getReader().read()
    abort.abort()
    await untilTrue(() => isClosed)
    expect((await cassette()).calls[0]?.end?.reason).toBe('aborted')
  })

  test('by a signal is closed', async () => {
    const server = await vendor((response) => void response.writeHead(200).write('data: 1\n\n'))
    const { url, cassette, end } = await start(server.url)
    const response = await call(url)
    await response.body!.getReader().read()
    expect(await end()).toBe(0)
    expect((await cassette()).calls[0]?.end?.reason).toBe('aborted')
  })
})

describe('refused', () => {
  test.each([
    ['GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n', '421'],
    ['GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\n', '400'],
  ])('%j', async (head, status) => {
    const { url } = await start('http://127.0.0.1:1')
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.end(`${head}Connection: close\r\n\r\n`)
    let text = ''
    for await (const chunk of socket) text += String(chunk)
    expect(text).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  })

  test.each([
    [['acme'], 'cassette record takes openai, anthropic, gemini or'],
    [['https://user:pass@h.example'], 'cassette record takes'],
    [['openai', '--port', 'x'], '--port must be an integer from 0 to 65535'],
    [['openai', '--max-bytes', '0'], '--max-bytes must be an integer ≥ 1024'],
    [['openai', '--max-total-bytes', '1k'], '--max-total-bytes'],
  ])('%j is a usage error', async (args, message) => {
    await expect(record.run(args, fakeTerminal().terminal)).rejects.toThrow(message)
  })

  test('a port in use or a directory that cannot be made', async () => {
    const { url, cwd } = await start('openai')
    const { port } = new URL(url)
    const { terminal, errors } = fakeTerminal([], { cwd })
    expect(await record.run(['openai', '--port', port], terminal)).toBe(1)
    expect(errors()).toContain(`Port ${port} is already in use`)
    const file = fakeTerminal([], { cwd })
    expect(await record.run(['openai', '--to', '/dev/null/x'], file.terminal)).toBe(1)
    expect(file.errors()).toContain('/dev/null')
  })
})
