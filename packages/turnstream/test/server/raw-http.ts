/** Bytes to a port, as no HTTP client would send them. */
import { connect } from 'node:net'

export interface RawAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly all: string
}

/** Sends the parts one after the other and reads until the server closes the connection. */
export async function sendRaw(url: string, ...parts: (string | Uint8Array)[]): Promise<RawAnswer> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname.replaceAll(/[[\]]/g, ''))
  let all = ''
  socket.setEncoding('latin1')
  socket.on('data', (text: string) => {
    all += text
  })
  const closed = new Promise<void>((resolve) => {
    socket.on('close', () => resolve())
    // What was read before a reset counts.
    socket.on('error', () => {})
  })
  for (const part of parts) if (socket.writable) socket.write(part)
  await closed
  return parse(all)
}

function parse(all: string): RawAnswer {
  const [head = '', ...rest] = all.split('\r\n\r\n')
  const [first = '', ...lines] = head.split('\r\n')
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  return { status: Number(first.split(' ')[1]), headers, body: rest.join('\r\n\r\n'), all }
}
