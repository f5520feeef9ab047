/** Requests that arrive on one connection before the earlier ones are answered. */
import { expect, test, vi } from 'vitest'
import { startServer } from '../support.ts'
import { Wire } from '../wire.ts'

const REQUEST = 'GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n'

test('pipelined requests are answered one after the other, in order', async () => {
  const server = await startServer()
  const { app } = server.gateway
  let running = 0
  let most = 0
  const { fetch } = app
  vi.spyOn(app, 'fetch').mockImplementation(async (...args) => {
    running += 1
    most = Math.max(most, running)
    try {
      return await fetch(...args)
    } finally {
      running -= 1
    }
  })
  const wire = await Wire.open(server.url)
  const ids = Array.from({ length: 200 }, (_, at) => `r${at}`)
  wire.send(ids.map((id) => REQUEST.replace('host', `x-request-id: ${id}\r\nhost`)).join(''))
  await wire.until('x-request-id: r199')
  expect(Array.from(wire.text.matchAll(/x-request-id: (\S+)/g), ([, id]) => id)).toEqual(ids)
  expect(most).toBe(1)
  wire.close()
})

test('a connection that pipelines ten times as many requests as it may is closed', async () => {
  const server = await startServer()
  const wire = await Wire.open(server.url)
  wire.send(REQUEST.repeat(10_000))
  await wire.closed
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200)
})
