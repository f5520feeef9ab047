import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/fake-clock.ts'
import { ROUTES } from '../../../../core/src/protocol/names.ts'
import { GatewayClient, unreachable } from '../../../src/cli/gateway-client.ts'
import { cuttingProxy } from '../cutting-proxy.ts'
import { fakeVendor } from '../fake-vendor.ts'
import { startGateway } from '../gateway.ts'
import { patientTerminal } from '../patient-terminal.ts'
import { serverWith } from '../sse-server.ts'
import { freePort } from '../support.ts'

function clientOf(url: string) {
  const { terminal, waits } = patientTerminal()
  return { client: new GatewayClient(url, terminal.clock), waits }
}

/** More than the buffers of a socket hold. */
const MUCH = 256 * 1024 * 1024

const body = { turnId: 'turn-1', prompt: 'Hello' }

describe('a URL', () => {
  test.each([
    ['http://host', 'http://host/xapi/turns/a/stream'],
    ['http://host/', 'http://host/xapi/turns/a/stream'],
    ['https://host/prefix/', 'https://host/prefix/xapi/turns/a/stream'],
  ])('of %s', (url, address) => {
    expect(clientOf(url).client.address(ROUTES.turnOutputStream, { turnId: 'a' })).toBe(address)
  })

  test('escapes ids', () => {
    const { client } = clientOf('http://host')
    expect(client.address(ROUTES.run, { runId: '../a/b?c' })).toBe(
      'http://host/api/v2/runs/..%2Fa%2Fb%3Fc',
    )
  })
})

describe('a request', () => {
  test('submits and cancels a turn', async () => {
    const { url } = await startGateway({ speed: 1 })
    const { client } = clientOf(url)
    await client.check()
    const turn = await client.submit({ ...body, model: 'scripted/long', threadId: 'thread-1' })
    expect(turn).toEqual({ runId: 'turn-1', turnId: 'turn-1', threadId: 'thread-1' })
    await client.cancel(turn.runId, 'enough')
    await client.cancel(turn.runId, 'enough')
  })

  test('is retried while the gateway is unavailable', async () => {
    const vendor = await fakeVendor(503, '{"error":{"code":"SERVER_SHUTDOWN","message":"later"}}')
    const { client, waits } = clientOf(vendor.url)
    await expect(client.submit(body)).rejects.toMatchObject({ code: 'SERVER_SHUTDOWN' })
    expect(vendor.requests).toHaveLength(4)
    expect(waits).toEqual([250, 500, 1000])
  })

  test('is not retried when it is rejected', async () => {
    const vendor = await fakeVendor(409, '{"error":{"code":"THREAD_BUSY","message":"wait"}}')
    const { client } = clientOf(vendor.url)
    await expect(client.submit(body)).rejects.toMatchObject({
      code: 'THREAD_BUSY',
      message: 'wait',
    })
    expect(vendor.requests).toHaveLength(1)
  })

  test('fails with the reason when the connection breaks every time', async () => {
    const { url } = await startGateway()
    const proxy = await cuttingProxy(url, () => 0)
    const { client } = clientOf(proxy.url)
    await expect(client.submit(body)).rejects.toMatchObject({
      code: 'CONNECTION_LOST',
      message: expect.stringContaining(`lost the connection to ${proxy.url}: `),
    })
    expect(proxy.requests).toHaveLength(4)
  })

  test('fails when there is no response', async () => {
    const { url } = await serverWith(() => {})
    const clock = fakeClock()
    const fault = new GatewayClient(url, clock).check().catch((error: unknown) => error)
    await clock.advance(15_000)
    expect(await fault).toMatchObject({
      code: 'CONNECTION_LOST',
      message: expect.stringContaining('no response within 15 s'),
    })
  })

  test.each([
    [404, '<html>', 'HTTP_404'],
    [500, '{"error":{"code":7}}', 'HTTP_500'],
    [400, '{"error":{"code":"ODD"}}', 'ODD'],
  ])('answered with %i and %s is %s', async (status, text, code) => {
    const vendor = await fakeVendor(status, text)
    await expect(clientOf(vendor.url).client.check()).rejects.toMatchObject({ code })
  })

  test('does not follow redirects, so a prompt never reaches another origin', async () => {
    const other = await fakeVendor(202, '{"runId":"r","turnId":"t","threadId":"h"}')
    const { url } = await serverWith((response) => {
      response.writeHead(307, { location: `${other.url}/api/v2/submit` }).end()
    })
    const { client } = clientOf(url)
    const refusal = { code: 'REDIRECTED', message: expect.stringContaining(`--url ${other.url}`) }
    await expect(client.submit(body)).rejects.toMatchObject(refusal)
    await expect(client.check()).rejects.toMatchObject(refusal)
    await expect(client.cancel('r', 'enough')).rejects.toMatchObject(refusal)
    expect(other.requests).toEqual([])
  })

  test('reads a bounded part of an error response', async () => {
    let sent = 0
    const { url } = await serverWith((response) => {
      response.writeHead(500, { 'content-type': 'application/json' })
      const chunk = Buffer.alloc(64 * 1024, ' ')
      const pour = () => {
        while (!response.destroyed && sent < MUCH) {
          sent += chunk.length
          if (!response.write(chunk)) return response.once('drain', pour)
        }
        return response.end()
      }
      pour()
    })
    await expect(clientOf(url).client.check()).rejects.toMatchObject({ code: 'HTTP_500' })
    expect(sent).toBeLessThan(MUCH)
  })

  test.each(['127.0.0.1', 'localhost'])(
    'to %s, where no server listens, fails at once',
    async (host) => {
      const { client, waits } = clientOf(`http://${host}:${await freePort()}`)
      await expect(client.submit(body)).rejects.toMatchObject({ code: 'GATEWAY_UNREACHABLE' })
      expect(waits).toEqual([])
    },
  )

  test.each([
    ['http://127.0.0.1:4010', 'start one with "turnstream serve", or'],
    ['http://127.0.0.1', 'start one with "turnstream serve", or'],
    ['http://127.0.0.1:8080', 'start one with "turnstream serve --port 8080", or'],
  ])('to %s names the command that starts a gateway there', (url, advice) => {
    expect(unreachable(url, undefined).message).toContain(advice)
  })
})
