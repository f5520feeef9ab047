// The backend of examples/eventsource.html: holds the key, submits turns and issues stream tokens.
//
//   TURNSTREAM_CORS_ORIGINS=http://127.0.0.1:8080 npx turnstream serve
//   node examples/eventsource.mjs
//
// TURNSTREAM_URL is the gateway, TURNSTREAM_KEY its key, if it requires one. The page never gets the key.
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'

const gateway = process.env.TURNSTREAM_URL ?? 'http://127.0.0.1:4010'
const key = process.env.TURNSTREAM_KEY
const port = Number(process.env.PORT ?? 8080)

/** Turns submitted here. A backend with users checks that the turn belongs to the user before it issues a token. */
const turns = new Set()

async function ask(path, body) {
  const authorization = key === undefined ? {} : { authorization: `Bearer ${key}` }
  const answer = await fetch(gateway + path, {
    method: 'POST',
    headers: { ...authorization, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!answer.ok) throw new Error(`the gateway returned ${answer.status}`)
  return answer.json()
}

const ROUTES = {
  'GET /': async () => ({
    type: 'text/html; charset=utf-8',
    body: await readFile(new URL('eventsource.html', import.meta.url)),
  }),
  'POST /turns': async (request) => {
    const text = (await request.toArray()).join('')
    const { turnId } = await ask('/api/v2/submit', { prompt: String(JSON.parse(text).prompt) })
    turns.add(turnId)
    return json({ turnId })
  },
  // The URL of a stream, with a read-only token that is valid for five minutes.
  'POST /streams': async (request) => {
    const { turnId } = JSON.parse((await request.toArray()).join(''))
    if (!turns.has(turnId)) return undefined
    const { token } = await ask('/api/v2/stream-tokens', { turnId })
    return json({ url: `${gateway}/xapi/turns/${turnId}/stream?token=${token}` })
  },
}

function json(value) {
  return { type: 'application/json', body: JSON.stringify(value) }
}

const server = createServer(async (request, response) => {
  try {
    const answer = await ROUTES[`${request.method} ${request.url}`]?.(request)
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': answer?.type ?? '' })
    response.end(answer?.body)
  } catch (error) {
    console.error(error.message)
    response.writeHead(502).end()
  }
})
server.listen(port, '127.0.0.1', () => {
  console.log(`open http://127.0.0.1:${server.address().port}`)
})
