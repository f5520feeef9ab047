import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { onSent } from '../../src/server/client-close.ts'
import { Wire } from './wire.ts'

const GET = 'GET / HTTP/1.1\r\nhost: a\r\n\r\n'
/** More than the system buffers. */
const LARGE = 'x'.repeat(50_000_000)

/** Starts a server and asks it. Resolves with the connection and what `onSent` says. */
async function answer(write: (response: ServerResponse) => void, request = GET) {
  const server = createServer()
  const sent = new Promise<boolean>((resolve) => {
    server.once('request', (_request, response) => {
      onSent(response, resolve)
      write(response)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const wire = await Wire.open(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  onTestFinished(() => wire.close())
  wire.send(request)
  return { wire, sent, server }
}

test.each([
  ['keeps the connection', GET],
  ['closes the connection', GET.replace('\r\n\r\n', '\r\nconnection: close\r\n\r\n')],
  ['knows no chunks', 'GET / HTTP/1.0\r\n\r\n'],
])('a response is sent to a client that %s', async (_name, request) => {
  const { sent } = await answer((response) => response.end('body'), request)
  expect(await sent).toBe(true)
})

test.each([
  ['an unfinished response', (response: ServerResponse) => response.write('body')],
  ['the start of a large response', (response: ServerResponse) => response.write(LARGE)],
  [
    'the start of a large response that has ended',
    (response: ServerResponse) => response.end(LARGE),
  ],
])('%s is not sent when the client disconnects', async (_name, write) => {
  for (const leave of ['destroy', 'resetAndDestroy'] as const) {
    const { wire, sent } = await answer(write)
    await wire.until('HTTP/1.1 200')
    wire.socket.pause()
    wire.socket[leave]()
    expect(await sent).toBe(false)
  }
})

test('a large response is not sent when the server closes the connection', async () => {
  let close: (() => void) | undefined
  const { wire, sent } = await answer((response) => {
    close = () => response.req.socket.destroy()
    response.end(LARGE)
  })
  await wire.until('HTTP/1.1 200')
  wire.socket.pause()
  close?.()
  expect(await sent).toBe(false)
})
