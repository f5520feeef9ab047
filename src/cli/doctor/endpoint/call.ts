import type { Clock } from '../../../async/clock.ts'
import { reasonOf } from '../http-look.ts'
import type { PlainAnswer } from './answer-rules.ts'
import type { Ending, Read, StreamRecording } from './recording.ts'

/** The server that is looked at. */
export interface Target {
  /** Without a slash at its end. */
  readonly baseUrl: string
  readonly key: string | undefined
  readonly clock: Clock
}

export interface Call {
  readonly path: string
  /** What is sent; without it nothing is, and it is a GET. */
  readonly body?: string
  /** In place of the key of the target. */
  readonly key?: string
  readonly limitMs: number
}

/** Nobody answered, or not in time. */
export interface NoAnswer {
  readonly reason: string
}

/** A model may think before it answers, and a small machine may have to load it first. */
export const MODEL_LIMIT_MS = 60_000
export const REFUSAL_LIMIT_MS = 10_000

const MAX_BYTES = 4 * 1024 * 1024

/** How long a server may take to close what it has declared to be over. */
const CLOSE_LIMIT_MS = 1000

const DONE_SEEN = /^data: ?\[DONE\]$/m
const TAIL_CHARS = 64

/** One call, bounded in time, that follows nobody elsewhere. */
class BoundedCall {
  readonly #clock: Clock
  readonly #abort = new AbortController()
  readonly #startedAt: number
  #cancelTimer = (): void => {}
  /** Why we stopped reading. */
  ending: Ending | undefined

  constructor(clock: Clock) {
    this.#clock = clock
    this.#startedAt = clock.now()
  }

  get elapsedMs(): number {
    return this.#clock.now() - this.#startedAt
  }

  async open({ baseUrl, key: ownKey }: Target, { path, body, key = ownKey, limitMs }: Call) {
    this.stopIn(limitMs, 'late')
    return fetch(`${baseUrl}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(key !== undefined && { authorization: `Bearer ${key}` }),
      },
      ...(body !== undefined && { body }),
      redirect: 'manual',
      signal: this.#abort.signal,
    })
  }

  /** In place of the limit so far. */
  stopIn(ms: number, ending: Ending): void {
    this.#cancelTimer()
    this.#cancelTimer = this.#clock.after(ms, () => this.stop(ending))
  }

  stop(ending: Ending): void {
    this.#cancelTimer()
    this.ending ??= ending
    this.#abort.abort()
  }
}

export async function callPlain(target: Target, call: Call): Promise<PlainAnswer | NoAnswer> {
  const bounded = new BoundedCall(target.clock)
  try {
    const response = await bounded.open(target, call)
    const decoder = new TextDecoder()
    let body = ''
    for await (const bytes of response.body ?? []) {
      body += decoder.decode(bytes, { stream: true })
      if (body.length > MAX_BYTES) break
    }
    return { status: response.status, body }
  } catch (error) {
    return noAnswer(error, bounded, call)
  } finally {
    bounded.stop('closed')
  }
}

export interface StreamCall extends Call {
  readonly about: string
  readonly asksUsage: boolean
  /** Leaves after the first bytes, as a client that was closed. */
  readonly leaves?: boolean
}

/** Records what comes, to its end or ours. */
export async function recordStream(
  target: Target,
  call: StreamCall,
): Promise<StreamRecording | NoAnswer> {
  const { about, asksUsage, leaves = false } = call
  const bounded = new BoundedCall(target.clock)
  const reads: Read[] = []
  let head: Pick<StreamRecording, 'status' | 'contentType'> | undefined
  let broken = false
  try {
    const response = await bounded.open(target, call)
    head = { status: response.status, contentType: response.headers.get('content-type') ?? '' }
    for await (const read of readsOf(response, bounded)) {
      reads.push(read)
      if (leaves) break
    }
  } catch (error) {
    if (head === undefined) return noAnswer(error, bounded, call)
    broken = true
  } finally {
    bounded.stop('closed')
  }
  const ending = broken && bounded.ending === 'closed' ? 'broken' : (bounded.ending ?? 'closed')
  return { about, asksUsage, ...head, reads, ending }
}

async function* readsOf(response: Response, bounded: BoundedCall): AsyncGenerator<Read> {
  const decoder = new TextDecoder()
  let tail = ''
  let size = 0
  for await (const bytes of response.body ?? []) {
    yield { atMs: bounded.elapsedMs, bytes }
    size += bytes.length
    if (size > MAX_BYTES) return bounded.stop('too long')
    const text = tail + decoder.decode(bytes, { stream: true })
    if (DONE_SEEN.test(text)) bounded.stopIn(CLOSE_LIMIT_MS, 'left open')
    tail = text.slice(-TAIL_CHARS)
  }
}

function noAnswer(error: unknown, { ending }: BoundedCall, { limitMs }: Call): NoAnswer {
  if (ending === 'late') return { reason: `no answer within ${limitMs / 1000} s` }
  return { reason: reasonOf(error) }
}
