import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** A network in front of a gateway that loses connections. New ones work. */
export async function startUnreliableNetwork(target: string) {
  const { port } = new URL(target)
  const sockets = new Set<Socket>()
  const stalled = new WeakSet<Socket>()
  const server = createServer((client) => {
    const upstream = connect(Number(port), '127.0.0.1')
    const directions: [Socket, Socket][] = [
      [client, upstream],
      [upstream, client],
    ]
    for (const [from, to] of directions) {
      sockets.add(from)
      from.on('data', (chunk) => {
        if (!stalled.has(from)) to.write(chunk)
      })
      // What follows is a close.
      from.on('error', () => {})
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    }
  })
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    cut()
    server.close()
    await once(server, 'close')
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut,
    /** Forgets connections without closing them, as networks do to devices that slept. */
    stall(): void {
      for (const socket of sockets) stalled.add(socket)
    },
  }
}
