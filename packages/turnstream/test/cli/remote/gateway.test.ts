import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { ROUTES } from '../../../../core/src/protocol/names.ts'
import { Gateway, path, unreachable } from '../../../src/cli/gateway.ts'
import { cuttingProxy } from '../cutting-proxy.ts'
import { fakeVendor } from '../fake-vendor.ts'
import { startGateway } from '../gateway.ts'
import { patientTerminal } from '../patient-terminal.ts'
import { serverWith } from '../sse-server.ts'
import { freePort } from '../support.ts'

function gatewayAt(url: string) {
  const { terminal, waits } = patientTerminal()
  const gateway = new Gateway(url, terminal.clock)
  const submit = () => gateway.client.submit({ turnId: 'turn-1', prompt: 'Hello' }).accepted()
  return { gateway, submit, waits }
}

/** More than the buffers of a socket hold. */
const MUCH = 256 * 1024 * 1024

test('ids are escaped in a path', () => {
  expect(path(ROUTES.run, '../a/b?c')).toBe('/api/v2/runs/..%2Fa%2Fb%3Fc')
  expect(path(ROUTES.runApproval, 'a:b', '$&')).toBe('/api/v2/runs/a%3Ab/approvals/%24%26')
})

test.each(['', '/', '/prefix/'])('a URL may end in %j', async (end) => {
  const paths: string[] = []
  const { url } = await serverWith((response, _headers, requested) => {
    paths.push(requested)
    response.end()
  })
  await gatewayAt(url.slice(0, -1) + end).gateway.get('/healthz')
  expect(paths).toEqual([`${end.replace(/\/$/, '')}/healthz`])
})

describe('a request', () => {
  test('submits and cancels a turn', async () => {
    const { url } = await startGateway({ speed: 1 })
    const { client } = gatewayAt(url).gateway
    const request = { turnId: 'turn-1', threadId: 'thread-1', prompt: 'Hello' }
    await client.submit({ ...request, model: 'scripted/long' }).accepted()
    await client.cancel('turn-1', 'enough')
    await client.cancel('turn-1', 'enough')
    expect(await client.turn('turn-1').done()).toMatchObject({ turn: { status: 'aborted' } })
  })

  test('is retried while the gateway is unavailable', async () => {
    const vendor = await fakeVendor(503, '{"error":{"code":"SERVER_SHUTDOWN","message":"later"}}')
    const { submit } = gatewayAt(vendor.url)
    await expect(submit()).rejects.toMatchObject({ code: 'SERVER_SHUTDOWN', message: 'later' })
    expect(vendor.requests).toHaveLength(10)
  })

  test('is not retried when it is rejected', async () => {
    const vendor = await fakeVendor(409, '{"error":{"code":"THREAD_BUSY","message":"wait"}}')
    const { submit } = gatewayAt(vendor.url)
    await expect(submit()).rejects.toMatchObject({ code: 'THREAD_BUSY', message: 'wait' })
    expect(vendor.requests).toHaveLength(1)
  })

  test('fails with the reason when the connection breaks every time', async () => {
    const { url } = await startGateway()
    const proxy = await cuttingProxy(url, () => 0)
    await expect(gatewayAt(proxy.url).submit()).rejects.toMatchObject({
      code: 'CONNECTION_LOST',
      message: expect.stringContaining(`lost the connection to ${proxy.url}: `),
    })
    expect(proxy.requests).toHaveLength(10)
  })

  test('fails when there is no response', async () => {
    const { url } = await serverWith(() => {})
    const clock = fakeClock()
    const fault = new Gateway(url, clock).get(ROUTES.health).catch((error: unknown) => error)
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
    await expect(gatewayAt(vendor.url).gateway.get(ROUTES.health)).rejects.toMatchObject({ code })
  })

  test('does not follow redirects, so a prompt never reaches another origin', async () => {
    const other = await fakeVendor(202, '{"runId":"r","turnId":"t","threadId":"h"}')
    const { url } = await serverWith((response) => {
      response.writeHead(307, { location: `${other.url}/api/v2/submit` }).end()
    })
    const { gateway, submit } = gatewayAt(url)
    const refusal = { code: 'REDIRECTED', message: expect.stringContaining(`--url ${other.url}`) }
    await expect(submit()).rejects.toMatchObject(refusal)
    await expect(gateway.get(ROUTES.health)).rejects.toMatchObject(refusal)
    await expect(gateway.client.cancel('r', 'enough')).rejects.toMatchObject(refusal)
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
    await expect(gatewayAt(url).gateway.get(ROUTES.health)).rejects.toMatchObject({
      code: 'HTTP_500',
    })
    expect(sent).toBeLessThan(MUCH)
  })

  test.each(['127.0.0.1', 'localhost'])(
    'to %s, where no server listens, fails at once',
    async (host) => {
      const { submit, waits } = gatewayAt(`http://${host}:${await freePort()}`)
      await expect(submit()).rejects.toMatchObject({ code: 'GATEWAY_UNREACHABLE' })
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
