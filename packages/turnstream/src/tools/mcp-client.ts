import type { ChildProcess } from 'node:child_process'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'
import type {
  CallToolResult,
  Client,
  ClientOptions,
  JsonSchemaValidator,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client'
import type { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { McpServer } from './mcp-server.ts'

const PACKAGE = '@modelcontextprotocol/client'

export interface McpPackage {
  readonly main: typeof import('@modelcontextprotocol/client')
  readonly stdio: typeof import('@modelcontextprotocol/client/stdio')
}

/** Loads the optional MCP client, also from `folder`, for a global installation. OPTION_INVALID if it is missing. */
export async function loadMcpPackage(folder?: string): Promise<McpPackage> {
  try {
    const [main, stdio] = await Promise.all([
      import('@modelcontextprotocol/client'),
      import('@modelcontextprotocol/client/stdio'),
    ])
    return { main, stdio }
  } catch (error) {
    const isMissing =
      error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND'
    if (!isMissing) throw error
    const found = folder === undefined ? undefined : await loadFrom(folder)
    if (found !== undefined) return found
    const detail = `tools of MCP servers need the package ${PACKAGE}: npm install ${PACKAGE}`
    throw new TurnstreamError('OPTION_INVALID', detail, { cause: error })
  }
}

async function loadFrom(folder: string): Promise<McpPackage | undefined> {
  const require = createRequire(join(folder, 'package.json'))
  let files: string[]
  try {
    files = [require.resolve(PACKAGE), require.resolve(`${PACKAGE}/stdio`)]
  } catch {
    return undefined
  }
  const [main, stdio] = await Promise.all(files.map((file) => import(pathToFileURL(file).href)))
  return { main, stdio }
}

/** A message of a server is at most this large. */
const MAX_MESSAGE_BYTES = 8 * 1024 * 1024
const CONNECT_MS = 60_000

export interface McpClientOptions {
  readonly server: McpServer
  readonly package: McpPackage
  /** Called when the tools have changed, or a stream of a remote server breaks: it may be gone. */
  readonly onDoubt: () => void
  readonly onClose: () => void
  /** Called for each piece that a local server writes to standard error. */
  readonly onStderr: (text: string) => void
}

/** Results are read as text. The client would check them on the event loop, with regular expressions of the server. */
const ACCEPT_ALL: NonNullable<ClientOptions['jsonSchemaValidator']> = {
  getValidator:
    <T>(): JsonSchemaValidator<T> =>
    (input) => ({ valid: true, data: input as T, errorMessage: undefined }),
}

export function createMcpClient(options: McpClientOptions) {
  const { server, onDoubt, onClose, onStderr } = options
  const { main, stdio } = options.package
  const client: Client = new main.Client(
    { name: 'turnstream', version: '1' },
    {
      jsonSchemaValidator: ACCEPT_ALL,
      listChanged: { tools: { autoRefresh: false, onChanged: onDoubt } },
      ...('url' in server && { versionNegotiation: { mode: 'auto' } }),
    },
  )
  // Failed calls say themselves why. Without a listener, errors in between would be thrown.
  const onerror = ({ message }: Error) => message.startsWith('SSE stream disconnected') && onDoubt()
  Object.assign(client, { onclose: onClose, onerror })
  const connect = async (): Promise<void> => {
    if ('url' in server) {
      const transport = new main.StreamableHTTPClientTransport(new URL(server.url), {
        requestInit: { headers: { ...server.headers } },
        fetch: boundedFetch,
        redirectPolicy: 'same-origin',
      })
      endWithStreams(transport)
      return client.connect(transport, { timeout: CONNECT_MS })
    }
    const { command, args = [], env = {}, cwd } = server
    const transport = new stdio.StdioClientTransport({
      command,
      args: [...args],
      env: { ...env },
      ...(cwd !== undefined && { cwd }),
      stderr: 'pipe',
      maxBufferSize: MAX_MESSAGE_BYTES,
    })
    paceOutput(transport)
    // Always read, or a server that writes much would stop.
    transport.stderr?.on('data', (chunk: Buffer) => onStderr(chunk.toString('utf8')))
    return client.connect(transport, { timeout: CONNECT_MS })
  }
  return { client, connect }
}

/** The code of a request whose stream ended without a response. */
export const STREAM_ENDED = -32_000

/** Fails a request when its stream has ended and cannot be resumed. The client would wait for its timeout. */
function endWithStreams(transport: StreamableHTTPClientTransport): void {
  const send = transport.send.bind(transport)
  transport.send = (message, options) => {
    if (Array.isArray(message) || !('id' in message) || !('method' in message)) {
      return send(message, options)
    }
    const { id } = message
    const error = { code: STREAM_ENDED, message: 'the connection closed' }
    // A request that has its response ignores this one.
    const onRequestStreamEnd = () => transport.onmessage?.({ jsonrpc: '2.0', id, error })
    return send(message, { onRequestStreamEnd, ...options })
  }
}

/** Responses to our messages are bounded. The stream of notifications is not: it lasts as long as the connection. */
const boundedFetch = async (url: string | URL, init: RequestInit = {}): Promise<Response> => {
  const response = await fetch(url, init)
  if (response.body === null) return response
  const maxBytes = init.method === 'POST' ? MAX_MESSAGE_BYTES : Infinity
  const { status, statusText, headers } = response
  return new Response(pacedBody(response.body, maxBytes), { status, statusText, headers })
}

/** The client parses this much at a time: a few milliseconds of the smallest messages. */
export const PART_BYTES = 4 * 1024

const LINE_FEED = 0x0a

/** Splits a chunk, but no message: the client copies what it has of one for each part. */
function* partsOf(chunk: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < chunk.byteLength; ) {
    let end = Math.min(at + PART_BYTES, chunk.byteLength)
    if (!chunk.subarray(at, end).includes(LINE_FEED)) {
      end = chunk.indexOf(LINE_FEED, end) + 1 || chunk.byteLength
    }
    yield chunk.subarray(at, end)
    at = end
  }
}

/** Passes the output of a local server on in parts, if the transport has its stream. Node would read two megabytes. */
function paceOutput(transport: StdioClientTransport): void {
  const start = transport.start.bind(transport)
  transport.start = async () => {
    await start()
    const { _process: server } = transport as unknown as { readonly _process?: ChildProcess }
    if (server?.stdout) paceStream(server.stdout)
  }
}

function paceStream(stream: Readable): void {
  const listeners = stream.listeners('data')
  stream.removeAllListeners('data')
  const passOn = async (chunk: Buffer): Promise<void> => {
    stream.pause()
    for (const part of partsOf(chunk)) {
      for (const listener of listeners) listener(part)
      await new Promise(setImmediate)
    }
    stream.resume()
  }
  stream.on('data', (chunk: Buffer) => void passOn(chunk))
}

/** Passes a body on in parts, one in each iteration of the event loop. A larger body than `maxBytes` is an error. */
export function pacedBody(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
): ReadableStream<Uint8Array> {
  let bytes = 0
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      async transform(chunk, controller) {
        bytes += chunk.byteLength
        if (bytes > maxBytes) throw new Error(`the response exceeds ${maxBytes} bytes`)
        for (const part of partsOf(chunk)) {
          controller.enqueue(part)
          await new Promise(setImmediate)
        }
      },
    }),
  )
}

/** The text for the model. Pictures and sounds are only named. */
export function textOf({ content, structuredContent }: CallToolResult): string {
  const texts = content.map((part) => {
    switch (part.type) {
      case 'text':
        return part.text
      case 'resource':
        return 'text' in part.resource ? part.resource.text : `[resource ${part.resource.uri}]`
      case 'resource_link':
        return `[${part.name}](${part.uri})`
      case 'image':
      case 'audio':
        return `[${part.type} ${part.mimeType}]`
    }
  })
  if (texts.length > 0 || structuredContent === undefined) return texts.join('\n')
  return JSON.stringify(structuredContent)
}
