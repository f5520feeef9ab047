// Serves examples/chat.html and the client, and passes its requests on to the gateway with the key, which the page never
// gets. A backend with users checks here who may read which thread.
//
//   npx turnstream serve
//   node examples/chat.mjs
//
// TURNSTREAM_URL is the gateway, TURNSTREAM_KEY its key, if it requires one.
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

const gateway = process.env.TURNSTREAM_URL ?? 'http://127.0.0.1:4010'
const key = process.env.TURNSTREAM_KEY
const modules = import.meta.resolve('@turnstream/client')

async function serveFile(file, type, response) {
  const body = await readFile(file)
  response.writeHead(200, { 'content-type': `${type}; charset=utf-8` }).end(body)
}

async function passOn(request, response) {
  const leave = new AbortController()
  response.on('close', () => leave.abort())
  const { 'content-type': type = '', accept = '*/*' } = request.headers
  const answer = await fetch(gateway + request.url, {
    method: request.method,
    headers: { 'content-type': type, accept, ...(key && { authorization: `Bearer ${key}` }) },
    ...(request.method === 'POST' && { body: Readable.toWeb(request), duplex: 'half' }),
    signal: leave.signal,
  })
  for (const name of ['content-type', 'retry-after']) {
    const value = answer.headers.get(name)
    if (value !== null) response.setHeader(name, value)
  }
  response.writeHead(answer.status).flushHeaders()
  if (answer.body) await pipeline(Readable.fromWeb(answer.body), response)
  else response.end()
}

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, 'http://page')
  try {
    if (pathname === '/') {
      await serveFile(new URL('chat.html', import.meta.url), 'text/html', response)
    } else if (/^\/turnstream\/[\w/-]+\.js$/.test(pathname)) {
      const file = new URL(pathname.slice('/turnstream/'.length), modules)
      await serveFile(file, 'text/javascript', response)
    } else if (/^\/(xapi|api\/v2)\//.test(pathname)) await passOn(request, response)
    else response.writeHead(404).end()
  } catch (error) {
    if (response.headersSent) response.destroy()
    else response.writeHead(error.code === 'ENOENT' ? 404 : 502).end()
  }
})
server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1', () => {
  console.log(`open http://127.0.0.1:${server.address().port}`)
})
