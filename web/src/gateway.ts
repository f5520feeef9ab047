import { type Client, createClient } from '../../packages/client/src/index.ts'
import { shareConnections } from '../../packages/client/src/share.ts'
import { noteDelivery } from './outbox.ts'

/** Of the gateway that serves this page, which may be mounted under a prefix. */
const baseUrl = new URL('.', document.baseURI).href.replace(/\/$/, '')

const KEY = 'turnstream.key'

/** Asks the person for a key; undefined when they give none. Set by the page. */
type AskForKey = (message: string) => Promise<string | undefined>

let askForKey: AskForKey = () => Promise.resolve(undefined)
/** Several requests are refused at once: they share one question. */
let question: Promise<string | undefined> | undefined
const keyListeners = new Set<() => void>()

export function onKeyNeeded(ask: AskForKey): void {
  askForKey = ask
}

function keyOrUndefined(): string | undefined {
  return sessionStorage.getItem(KEY) ?? undefined
}

/** Calls a function when the person has given another key. Returns a function that stops it. */
export function onNewKey(listener: () => void): () => void {
  keyListeners.add(listener)
  return () => keyListeners.delete(listener)
}

function newKey(message: string): Promise<string | undefined> {
  question ??= askForValidKey(message).finally(() => {
    question = undefined
  })
  return question
}

/** Asks until the gateway knows the key, or the person gives up. */
async function askForValidKey(message: string): Promise<string | undefined> {
  for (let reason = message; ; ) {
    const key = await askForKey(reason)
    const refusal = key && (await refusalOf(key))
    if (refusal) {
      reason = refusal
      continue
    }
    if (key !== undefined) {
      sessionStorage.setItem(KEY, key)
      // What waits for this answer is sent first.
      setTimeout(() => {
        for (const listener of keyListeners) listener()
      })
    }
    return key
  }
}

async function refusalOf(key: string): Promise<string | undefined> {
  // Others cannot be sent at all.
  if (!/^[!-~]+$/.test(key)) return 'A key has only letters, digits and punctuation.'
  // Without a network it is tried later.
  const response = await send('/v1/models', {}, key).catch(() => undefined)
  if (response?.status !== 401) return undefined
  return `The server does not know this key: ${(await errorOf(response)).message}.`
}

export const client: Client = createClient({
  baseUrl,
  token: keyOrUndefined,
  streamArguments: true,
  share: shareConnections(),
  onAuth: (error) => (error.status === 401 ? newKey(error.message) : undefined),
  onDelivery: noteDelivery,
})

class RequestError extends Error {
  readonly code: string
  readonly status: number
  readonly retryAfterMs: number

  constructor(message: string, fields: Pick<RequestError, 'code' | 'status' | 'retryAfterMs'>) {
    super(message)
    this.code = fields.code
    this.status = fields.status
    this.retryAfterMs = fields.retryAfterMs
  }
}

/** For routes that the client does not have. Throws RequestError. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  let response = await send(path, init)
  if (response.status === 401) {
    const error = await errorOf(response)
    if ((await newKey(error.message)) === undefined) throw error
    response = await send(path, init)
  }
  if (!response.ok) throw await errorOf(response)
  return response
}

function send(path: string, init: RequestInit, key = keyOrUndefined()): Promise<Response> {
  const headers = new Headers(init.headers)
  if (key !== undefined) headers.set('authorization', `Bearer ${key}`)
  if (init.body !== undefined) headers.set('content-type', 'application/json')
  return fetch(`${baseUrl}${path}`, { ...init, headers })
}

async function errorOf(response: Response): Promise<RequestError> {
  const { status, statusText, headers } = response
  const body = await response.json().catch(() => undefined)
  const { code = `HTTP_${status}`, message = statusText } = body?.error ?? {}
  // The vendors' APIs have other codes.
  const ownCode = status === 401 ? (keyOrUndefined() ? 'KEY_INVALID' : 'KEY_REQUIRED') : code
  const retryAfterMs = Number(headers.get('retry-after')) * 1000 || 0
  return new RequestError(message, { code: ownCode ?? `HTTP_${status}`, status, retryAfterMs })
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
