import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** How much of the answer a connection lets through before it breaks; undefined lets all of it through. */
export type Cut = (request: string, connection: number) => number | undefined

/** Stands before a gateway and breaks connections, the way networks do: in the middle, without a word. */
export async function cuttingProxy(target: string, cut: Cut) {
  const { port } = new URL(target)
  const requests: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(Number(port), '127.0.0.1')
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('close', () => sockets.delete(socket))
      // The other side is gone; what follows is a close.
      socket.on('error', () => {})
    }
    let left: number | undefined
    client.on('data', (chunk) => {
      const [line = ''] = chunk.toString('latin1').split('\r\n', 1)
      requests.push(chunk.toString('latin1'))
      left = cut(line, requests.length)
      upstream.write(chunk)
    })
    upstream.on('data', (chunk) => {
      client.write(left === undefined ? chunk : chunk.subarray(0, left))
      if (left === undefined) return
      left -= chunk.length
      if (left <= 0) client.end(() => client.destroy())
    })
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, 'close')
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests }
}
