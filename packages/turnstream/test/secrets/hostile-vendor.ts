/** A vendor that repeats whatever it is told: what it does is what the model of a request is called. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { onTestFinished } from 'vitest'
import { startVendor } from '../providers/vendor-server.ts'

export interface HostileVendor {
  readonly url: string
  /** The requests so far, headers and bodies, as one text. */
  readonly heard: () => string
}

interface Heard {
  readonly headers: string
  readonly body: string
}

type Trick = (response: ServerResponse, heard: Heard, vendorUrl: string) => void

/** What the model says when it answers. */
export const OUTPUT = 'planted-output-of-the-model'

/** All that was heard, in the spellings in which programs write it into their errors. */
function echo({ headers, body }: Heard): string {
  return [
    headers,
    body,
    encodeURIComponent(headers),
    Buffer.from(headers).toString('base64'),
    JSON.stringify(headers),
  ].join(' and ')
}

function frames(response: ServerResponse, ...texts: string[]): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'set-cookie': 'vendor=cookie' })
  response.end(texts.map((text) => `data: ${text}\n\n`).join(''))
}

function refuse(response: ServerResponse, message: string): void {
  response.writeHead(401, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ error: { message, code: message.slice(0, 300), type: 'x' } }))
}

const text = { model: 'm', choices: [{ index: 0, delta: { content: OUTPUT } }] }
const stop = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }

export const TRICKS: Record<string, Trick> = {
  answer: (response) => frames(response, JSON.stringify(text), JSON.stringify(stop)),
  refusal: (response, heard) => refuse(response, `Incorrect API key provided: ${echo(heard)}`),
  'short-refusal': (response, { headers }) => refuse(response, headers.slice(0, 900)),
  'plain-refusal': (response, { headers }) => {
    response.writeHead(400).end(headers.replaceAll(/[{}]/g, '').slice(0, 290))
  },
  event: (response, heard) =>
    frames(response, JSON.stringify({ type: 'error', error: { message: echo(heard) } })),
  'broken-json': (response, { headers }) => frames(response, `{"a": ${headers}`, headers.slice(20)),
  'broken-text': (response, { body }) => frames(response, body.slice(1), `"${body}`),
  redirect: (response, { headers }, url) => {
    const location = `${url}/elsewhere?key=${encodeURIComponent(headers)}`
    response.writeHead(307, { location }).end(location)
  },
  trace: (response, heard, url) => {
    const trace = `Traceback:\n  File "/usr/lib/engine.py" calling ${url}\n${echo(heard)}`
    response.writeHead(400, `calling ${url}`, { 'x-trace': url }).end(trace)
  },
  'hang-up': (response) => void response.destroy(),
}

export async function startHostileVendor(): Promise<HostileVendor> {
  const heard: string[] = []
  const server = await startVendor((response, request) => {
    const body = server.bodies.at(-1) ?? ''
    const said = { headers: JSON.stringify(request.headers), body }
    heard.push(`${request.url}\n${said.headers}\n${body}`)
    trickOf(request, body)(response, said, server.url)
  })
  onTestFinished(() => server.close())
  return { url: server.url, heard: () => heard.join('\n') }
}

/** The name is in the body, or with Gemini in the path. */
function trickOf({ url = '' }: IncomingMessage, body: string): Trick {
  const inPath = /models\/([\w-]+):/.exec(url)?.[1]
  const { model = inPath } = JSON.parse(body) as { model?: string }
  return TRICKS[model ?? ''] ?? ((response) => refuse(response, 'no such trick'))
}
