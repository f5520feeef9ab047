import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { onTestFinished } from 'vitest'

/** A proxy that lets nothing through and notes whom it was asked for. Closed with the test. */
export async function startLoggingProxy() {
  const requests: string[] = []
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (data) => {
      requests.push(data.toString('latin1').split('\r\n', 1)[0] ?? '')
      socket.destroy()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY']
  const all = names.flatMap((name) => [name, name.toLowerCase()]).map((name) => [name, url])
  /** Variables that send everything but loopback to the proxy. */
  const env: Record<string, string> = { ...Object.fromEntries(all), NO_PROXY: '127.0.0.1' }
  return { requests, env }
}

/** A server that passes everything on to `target` and notes the requests. Closed with the test. */
export async function startRequestLog(target: string) {
  const requests: string[] = []
  const { hostname, port } = new URL(target)
  const server = createServer((socket) => {
    const upstream = connect(Number(port), hostname)
    for (const each of [socket, upstream]) each.on('error', () => upstream.destroy())
    socket.on('data', (data) => {
      const [, request] = /^([A-Z]+ \S+) HTTP/.exec(data.toString('latin1')) ?? []
      if (request !== undefined) requests.push(request)
    })
    socket.pipe(upstream).pipe(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return { requests, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}
