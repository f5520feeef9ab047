import { CallSlots } from '@turnstream/core/internal/async/call-slots'
import { optionInvalid } from '@turnstream/core/internal/protocol/errors'
import { withoutUndefined } from '@turnstream/core/internal/protocol/json'
import { parseUrl } from '@turnstream/core/internal/protocol/url'
import { findSchemaFault } from '../turns/tool-schema.ts'
import type { Tool } from '../turns/tools.ts'
import { hideValues, resolveToolLimits, TOOL_NAME, type ToolLimits } from './limits.ts'

export interface HttpToolOptions extends ToolLimits, Omit<Tool, 'execute' | 'timeoutMs'> {
  /** Receives the arguments as a JSON object with POST. */
  readonly url: string
  /** Sent with every call. Their values never appear in outputs and errors. */
  readonly headers?: Readonly<Record<string, string>>
  readonly fetch?: typeof globalThis.fetch
}

const MAX_REDIRECTS = 3
const EXCERPT_CHARS = 500

/**
 * Creates a tool that posts its arguments to a URL; the response body is the output. Statuses from 400, bodies that
 * are too large or not UTF-8, and redirects to other origins are failures. Calls are not retried. OPTION_INVALID.
 */
export function createHttpTool(options: HttpToolOptions): Tool {
  const { name, description, parameters, strict, needsApproval } = options
  const { url, headers = {}, secrets = [], fetch = globalThis.fetch } = options
  const { timeoutMs, maxOutputBytes, maxParallelCalls } = resolveToolLimits(options)
  checkTool(options)
  const slots = new CallSlots(maxParallelCalls)
  const hide = hideValues(secrets, headers)
  const init = {
    method: 'POST',
    headers: { accept: 'application/json, text/*', ...headers, 'content-type': 'application/json' },
    redirect: 'manual',
  } as const

  async function post(args: Record<string, unknown>, signal: AbortSignal): Promise<string> {
    const response = await send(url, { ...init, body: JSON.stringify(args), signal }, fetch)
    const { status } = response
    const body = await readBody(response, maxOutputBytes, status >= 400)
    if (status < 400) return hide(body)
    const excerpt = hide(body).replaceAll(/\s+/g, ' ').trim().slice(0, EXCERPT_CHARS)
    throw new Error(excerpt === '' ? `status ${status}` : `status ${status}: ${excerpt}`)
  }

  return {
    name,
    parameters,
    timeoutMs,
    ...withoutUndefined({ description, strict, needsApproval }),
    execute: (args, { signal }) => slots.run(signal, () => post(args, signal)),
  }
}

function checkTool({ name, parameters, url }: HttpToolOptions): void {
  if (!TOOL_NAME.test(name))
    throw optionInvalid(`the tool name ${JSON.stringify(name)} is not usable`)
  const fault = findSchemaFault(parameters)
  if (fault !== undefined) throw optionInvalid(`parameters of ${name}: ${fault}`)
  if (!/^https?:$/.test(parseUrl(url)?.protocol ?? '')) throw optionInvalid(`url of ${name}`)
}

/** Follows redirects that repeat the request at the same origin. */
async function send(
  url: string,
  init: RequestInit,
  fetch: typeof globalThis.fetch,
): Promise<Response> {
  let target = new URL(url)
  for (let count = 0; ; count++) {
    const response = await fetchOnce(target, init, fetch)
    if (response.status < 300 || response.status >= 400) return response
    await response.body?.cancel()
    const next = parseUrl(new URL(response.headers.get('location') ?? '', target).href)
    const isRepeated = response.status === 307 || response.status === 308
    if (next?.origin !== target.origin || !isRepeated || count >= MAX_REDIRECTS) {
      throw new Error(`status ${response.status}: the redirect was not followed`)
    }
    target = next
  }
}

/** Addresses of the network stay out of the error: all readers of the turn see it. */
async function fetchOnce(
  url: URL,
  init: RequestInit,
  fetch: typeof globalThis.fetch,
): Promise<Response> {
  try {
    return await fetch(url, init)
  } catch (error) {
    if (init.signal?.aborted) throw error
    const code = codeOf(error) ?? codeOf((error as Error).cause)
    throw new Error(`no response${code === undefined ? '' : ` (${code})`}`, { cause: error })
  }
}

function codeOf(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : undefined
}

/** Reads at most `maxBytes`. More is an error, or cut off where `isExcerpt`. */
async function readBody(response: Response, maxBytes: number, isExcerpt: boolean): Promise<string> {
  const decoder = new TextDecoder('utf-8', { fatal: !isExcerpt })
  let text = ''
  let bytes = 0
  // Leaving the loop cancels the body.
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength
    if (bytes > maxBytes && !isExcerpt) throw new Error(`the output exceeds ${maxBytes} bytes`)
    text += decode(decoder, chunk)
    if (isExcerpt && text.length > 4 * EXCERPT_CHARS) return text
  }
  return text + decode(decoder)
}

function decode(decoder: TextDecoder, chunk?: Uint8Array): string {
  try {
    return chunk === undefined ? decoder.decode() : decoder.decode(chunk, { stream: true })
  } catch (error) {
    throw new Error('the output is not UTF-8 text', { cause: error })
  }
}
