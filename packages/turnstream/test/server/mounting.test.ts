/** The gateway behind somebody else's `node:http` server, with nothing but the options that it needs. */

import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createGateway, createRequestListener, MemoryLog } from '../../src/server.ts'
import { HeldProvider } from './held-provider.ts'

function createParts() {
  const held = new HeldProvider()
  const log = new MemoryLog()
  const gateway = createGateway({
    log,
    providers: [{ provider: held, defaultModel: 'm' }],
    shutdownGraceMs: 0,
  })
  onTestFinished(() => gateway.close())
  return { held, log, gateway }
}

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function submit(url: string, body: object): Promise<Response> {
  const headers = { 'content-type': 'application/json' }
  return fetch(`${url}/api/v2/submit`, { method: 'POST', headers, body: JSON.stringify(body) })
}

describe('createGateway', () => {
  test('names the process that runs a turn, and accepts a plain list of providers', async () => {
    const { gateway, log } = createParts()
    const { turnId } = await gateway.turns.submit({
      input: [{ type: 'message', origin: 'user', content: 'Hi' }],
    })
    expect(await log.getTurn(turnId)).toMatchObject({ owner: `${hostname()}:${process.pid}` })
    const models = await gateway.app.request('/v1/models')
    expect(await models.json()).toMatchObject({ data: [{ id: 'held/m' }] })
  })
})

describe('createRequestListener', () => {
  test('serves the gateway from another server', async () => {
    const { gateway } = createParts()
    const url = await serve(createRequestListener(gateway))
    const answer = await submit(url, { prompt: 'Hi', turnId: 't' })
    expect([answer.status, await answer.json()]).toMatchObject([202, { turnId: 't' }])
    const stream = await fetch(`${url}/xapi/turns/t/stream`)
    await gateway.close()
    expect(await stream.text()).toContain('"type":"turn_error"')
  })

  test('refuses a request whose body was already read', async () => {
    const { gateway } = createParts()
    const listener = createRequestListener(gateway)
    const url = await serve((request, response) => {
      request.on('data', () => {})
      request.on('end', () => listener(request, response))
    })
    const answer = await submit(url, { prompt: 'Hi' })
    expect(answer.status).toBe(400)
    const { error } = (await answer.json()) as { error: { code: string; message: string } }
    expect(error.code).toBe('REQUEST_INVALID')
    expect(error.message).toContain('Mount the gateway before body parsers')
  })

  test('refuses a body that is too large and keeps the connection usable', async () => {
    const url = await serve(createRequestListener(createParts().gateway))
    for (let round = 0; round < 3; round++) {
      const answer = await submit(url, { prompt: 'x'.repeat(6_000_000) })
      const { error } = (await answer.json()) as { error: { code: string } }
      expect([answer.status, error.code]).toEqual([413, 'BODY_TOO_LARGE'])
    }
    expect((await fetch(`${url}/healthz`)).status).toBe(200)
  })

  test('answers an invalid URL', async () => {
    const url = await serve((request, response) => {
      request.url = 'http://['
      createRequestListener(createParts().gateway)(request, response)
    })
    const answer = await fetch(url)
    expect([answer.status, answer.headers.get('content-type')]).toEqual([400, 'application/json'])
  })
})
