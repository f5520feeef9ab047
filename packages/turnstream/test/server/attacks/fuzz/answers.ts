/** What came back on a connection. */
import { ERROR_CODES, type ErrorCode } from '../../../../../core/src/index.ts'

export interface RawAnswer {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

const HEAD_END = '\r\n\r\n'
const STATUS_LINE = /^HTTP\/1\.1 (\d{3}) [\w -]+$/

/** The answers in their order. Throws where the bytes are no HTTP. */
export function answersIn(bytes: Buffer): RawAnswer[] {
  const text = bytes.toString('latin1')
  const answers: RawAnswer[] = []
  let at = 0
  while (at < text.length) {
    const headEnd = text.indexOf(HEAD_END, at)
    // We left in the middle of it.
    if (headEnd === -1) break
    const [first = '', ...lines] = text.slice(at, headEnd).split('\r\n')
    const status = STATUS_LINE.exec(first)?.[1]
    if (status === undefined) throw new Error(`no status line: ${shown(first)}`)
    const headers = new Map(lines.map(fieldOf))
    const { body, end } = bodyAt(text, headEnd + HEAD_END.length, Number(status), headers)
    answers.push({ status: Number(status), headers, body: Buffer.from(body, 'latin1').toString() })
    at = end
  }
  return answers
}

function fieldOf(line: string): [string, string] {
  const [, name, value] = /^([\w-]+): ?(.*)$/.exec(line) ?? []
  if (name === undefined || value === undefined) throw new Error(`no header: ${shown(line)}`)
  return [name.toLowerCase(), value]
}

interface Body {
  readonly body: string
  readonly end: number
}

function bodyAt(
  text: string,
  start: number,
  status: number,
  headers: ReadonlyMap<string, string>,
): Body {
  // To HEAD, and where there can be none: the next answer follows.
  const isBare = status === 204 || status === 100 || text.startsWith('HTTP/1.1 ', start)
  if (isBare) return { body: '', end: start }
  if (headers.get('transfer-encoding') === 'chunked') return chunksAt(text, start)
  const end = Math.min(text.length, start + Number(headers.get('content-length') ?? text.length))
  return { body: text.slice(start, end), end }
}

/** As far as they go: we may have left in the middle of one. */
function chunksAt(text: string, start: number): Body {
  let body = ''
  for (let at = start; ; ) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd === -1) return { body, end: text.length }
    const line = text.slice(at, lineEnd)
    if (!/^[\da-f]{1,8}$/.test(line)) throw new Error(`no size of a chunk: ${shown(line)}`)
    const size = Number.parseInt(line, 16)
    body += text.slice(lineEnd + 2, lineEnd + 2 + size)
    at = lineEnd + 2 + size + 2
    if (size === 0 || at > text.length) return { body, end: Math.min(at, text.length) }
    if (text.slice(at - 2, at) !== '\r\n') throw new Error('a chunk is longer than it says')
  }
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 200))
}

// A stack, a path of this machine, the name of a file of ours or of a package.
const TELLING = /\n\s+at |node_modules|node:internal|\.ts[:)]|[/\\](?:src|dist|work|home|usr)[/\\]/

/** Why an answer should not have been given; undefined if it is as it should be. */
export function faultOf({ status, headers, body }: RawAnswer): string | undefined {
  if (status === 100) return undefined
  if (status >= 500) return 'a failure of the server'
  if (TELLING.test(body)) return 'it reveals internals'
  if (!headers.has('x-request-id')) return 'it has no request id'
  if (headers.get('x-content-type-options') !== 'nosniff') return 'it lacks security headers'
  if (headers.get('content-type')?.startsWith('text/event-stream') && !isFrames(body)) {
    return 'the stream has an invalid line'
  }
  if (status < 400 || body === '') return undefined
  if (headers.get('content-type') !== 'application/json') return 'the error is not JSON'
  // A body that was cut off by our leaving is no fault.
  if (Buffer.byteLength(body) < Number(headers.get('content-length'))) return undefined
  return faultOfRefusal(status, body)
}

/** All that a stream of ours has; the last frame may be cut off by our leaving. */
function isFrames(body: string): boolean {
  const lines = body.split('\n').slice(0, -1)
  return lines.every((line) =>
    /^(?:$|(?:id|event|data|retry): |: heartbeat(?: every \d+ ms)?$)/.test(line),
  )
}

function faultOfRefusal(status: number, body: string): string | undefined {
  const { error, type } = JSON.parse(body) as { error?: Record<string, unknown>; type?: string }
  const { code, message } = error ?? {}
  // Anthropic's errors have a type, and OpenAI's for an unknown response have no code.
  if (type === 'error' && typeof error?.['type'] === 'string') return undefined
  if (status === 404 && code === null && error?.['type'] === 'invalid_request_error')
    return undefined
  const isOurs = typeof code === 'string' && Object.hasOwn(ERROR_CODES, code)
  // What is refused in the form of OpenAI may have a code of theirs.
  const isVendors = typeof error?.['type'] === 'string' && 'param' in error
  if (typeof code !== 'string' || !(isOurs || isVendors)) return 'the refusal has no code'
  if (typeof message !== 'string' || message.length > 1000)
    return 'the refusal has no short message'
  // A request that takes too long cannot be read, and HTTP has a status of its own for it.
  return !isOurs || ERROR_CODES[code as ErrorCode].status === status || status === 408
    ? undefined
    : 'code and status differ'
}
