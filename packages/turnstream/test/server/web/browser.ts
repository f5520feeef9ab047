/** Requests with the headers that a browser would set, which `fetch` does not let anybody set. */
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'

export interface Ask {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

export interface Got {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly text: string
  /** The code of a refusal. */
  readonly code: string | undefined
}

/** One request, on a connection of its own, read to its end. */
export async function ask(url: string, options: Ask = {}): Promise<Got> {
  const { method = 'GET', headers = {}, body } = options
  const asked = request(url, { method, headers, agent: false }).end(body)
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  let text = ''
  for await (const part of answer.setEncoding('utf8')) text += part
  const got = answer.headers as Record<string, string | undefined>
  const isJson = got['content-type'] === 'application/json' && text !== ''
  const code = isJson ? JSON.parse(text).error?.code : undefined
  return { status: answer.statusCode ?? 0, headers: got, text, code }
}

const from = (site: string, mode: string, dest: string) => ({
  'sec-fetch-site': site,
  'sec-fetch-mode': mode,
  'sec-fetch-dest': dest,
})

/** What browsers send with a GET, by what makes them send it. */
export const GETS = {
  address: from('none', 'navigate', 'document'),
  link: from('cross-site', 'navigate', 'document'),
  neighbourLink: from('same-site', 'navigate', 'document'),
  ownFetch: from('same-origin', 'cors', 'empty'),
  ownPicture: from('same-origin', 'no-cors', 'image'),
  picture: from('cross-site', 'no-cors', 'image'),
  script: from('cross-site', 'no-cors', 'script'),
  blindFetch: from('cross-site', 'no-cors', 'empty'),
  frame: from('cross-site', 'navigate', 'iframe'),
  object: from('cross-site', 'navigate', 'object'),
  neighbourPicture: from('same-site', 'no-cors', 'image'),
  fetch: { ...from('cross-site', 'cors', 'empty'), origin: 'https://evil.example' },
  neighbourFetch: { ...from('same-site', 'cors', 'empty'), origin: 'http://localhost:3000' },
  // Where the address has no TLS and is not loopback, only this is sent.
  plainFetch: { origin: 'https://evil.example' },
  sandboxedFetch: { origin: 'null' },
} as const
