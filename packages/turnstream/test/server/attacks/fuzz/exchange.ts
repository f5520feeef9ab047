/** Bytes to a port and back. */
import { connect } from 'node:net'
import type { Attack } from './generators.ts'

// What is not answered within this is waited for by the server: an end of a body that never comes, or a
// stream that goes on. It bounds the run and decides nothing.
const PATIENCE_MS = 250

/**
 * Sends an attack and, behind it, an ordinary request that asks for the end of the connection: where the
 * server takes the attack for a whole request, or for none, the connection ends by itself.
 */
export function exchange(port: number, { pieces, hangsUp = false }: Attack): Promise<Buffer> {
  return new Promise((resolve) => {
    const got: Buffer[] = []
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    const patience = setTimeout(() => {
      if (socket.writable) socket.end()
      else socket.destroy()
      patience.refresh()
    }, PATIENCE_MS)
    socket.on('data', (bytes) => {
      got.push(bytes)
      patience.refresh()
    })
    // The server may close, or reset, while we still send.
    socket.on('error', () => {})
    socket.on('close', () => {
      clearTimeout(patience)
      resolve(Buffer.concat(got))
    })
    const waiting = hangsUp ? [...pieces] : [...pieces, LAST]
    const send = () => {
      const piece = waiting.shift()
      if (piece === undefined) {
        if (hangsUp) socket.end()
        return
      }
      if (!socket.writable) return
      socket.write(piece, () => setImmediate(send))
    }
    socket.on('connect', send)
  })
}

const LAST = Buffer.from('GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n')
