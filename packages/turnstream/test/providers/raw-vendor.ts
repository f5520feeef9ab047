/** A provider on this machine whose packets a test decides on: fetch sees where each of them ends. */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export interface RawVendor {
  readonly url: string
  /** Connections that had a request. Node 20 opens another one for nothing when a call is aborted. */
  readonly sockets: ReadonlySet<Socket>
}

export type Connection = (socket: Socket) => void | Promise<void>

/** `onRequest` runs when the first bytes of a request are there. */
export async function rawVendor(onRequest: Connection): Promise<RawVendor> {
  const all = new Set<Socket>()
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    all.add(socket)
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.on('close', () => {
      all.delete(socket)
      sockets.delete(socket)
    })
    socket.on('data', () => {
      if (!sockets.has(socket)) void onRequest(socket)
      sockets.add(socket)
    })
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  onTestFinished(async () => {
    for (const socket of all) socket.destroy()
    await new Promise((resolve) => {
      server.close(resolve)
    })
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sockets }
}

export const HEAD =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'

/** The end of a chunked body. */
export const END = '0\r\n\r\n'

export function chunk(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
}
