import { type Client, createClient } from '../../src/client.ts'

/** Of the gateway that serves this page, which may be mounted under a prefix. */
const baseUrl = new URL('.', document.baseURI).href.replace(/\/$/, '')

const KEY = 'turnstream.key'

/** Asks the person for a key; undefined when they give none. Set by the page. */
type AskForKey = (message: string) => Promise<string | undefined>

let askForKey: AskForKey = () => Promise.resolve(undefined)
/** Several requests are refused at once: they share one question. */
let question: Promise<string | undefined> | undefined

export function onKeyNeeded(ask: AskForKey): void {
  askForKey = ask
}

function keyOrUndefined(): string | undefined {
  return sessionStorage.getItem(KEY) ?? undefined
}

function newKey(message: string): Promise<string | undefined> {
  question ??= askForKey(message)
    .then((key) => {
      if (key !== undefined) sessionStorage.setItem(KEY, key)
      return key
    })
    .finally(() => {
      question = undefined
    })
  return question
}

export const client: Client = createClient({
  baseUrl,
  token: keyOrUndefined,
  streamArguments: true,
  onAuth: (error) => newKey(error.message),
})

class RequestError extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** For routes that the client does not have. Throws RequestError. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  let response = await send(path, init)
  if (response.status === 401) {
    const key = await newKey((await errorOf(response)).message)
    if (key !== undefined) response = await send(path, init)
  }
  if (!response.ok) throw await errorOf(response)
  return response
}

function send(path: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers)
  const key = keyOrUndefined()
  if (key !== undefined) headers.set('authorization', `Bearer ${key}`)
  if (init.body !== undefined) headers.set('content-type', 'application/json')
  return fetch(`${baseUrl}${path}`, { ...init, headers })
}

async function errorOf(response: Response): Promise<RequestError> {
  const body = await response.json().catch(() => undefined)
  const { code = `HTTP_${response.status}`, message = response.statusText } = body?.error ?? {}
  return new RequestError(code, message)
}

/** The ids of the models that may be chosen, the default first. */
export async function listModels(): Promise<string[]> {
  const { data } = await (await request('/v1/models')).json()
  return data.map(({ id }: { id: string }) => id)
}

export async function renameThread(threadId: string, title: string): Promise<void> {
  await request(`/api/v2/threads/${encodeURIComponent(threadId)}`, {
    method: 'PATCH',
    body: JSON.stringify({ title }),
  })
}
