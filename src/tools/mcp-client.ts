import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { CallToolResult, Client } from '@modelcontextprotocol/client'
import { TurnstreamError } from '../protocol/errors.ts'
import type { McpServer } from './mcp-server.ts'

const PACKAGE = '@modelcontextprotocol/client'

/** The parts of the official client that are used here. */
export interface McpPackage {
  readonly main: typeof import('@modelcontextprotocol/client')
  readonly stdio: typeof import('@modelcontextprotocol/client/stdio')
}

/**
 * Loads the official MCP client, an optional peer dependency. A command that was installed globally finds it in
 * `folder`. OPTION_INVALID if it is missing.
 */
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
  readonly onToolsChanged: () => void
  readonly onClose: () => void
  /** Called for each piece that a local server writes to standard error. */
  readonly onStderr: (text: string) => void
}

/** Prepares a connection; `connect` makes it. */
export function createMcpClient(options: McpClientOptions) {
  const { server, onToolsChanged, onClose, onStderr } = options
  const { main, stdio } = options.package
  const client: Client = new main.Client(
    { name: 'turnstream', version: '1' },
    {
      listChanged: { tools: { autoRefresh: false, onChanged: onToolsChanged } },
      ...('url' in server && { versionNegotiation: { mode: 'auto' } }),
    },
  )
  // Failed calls say themselves why. Without a listener, errors in between would be thrown.
  Object.assign(client, { onclose: onClose, onerror: () => {} })
  const connect = async (): Promise<void> => {
    if ('url' in server) {
      const transport = new main.StreamableHTTPClientTransport(new URL(server.url), {
        requestInit: { headers: { ...server.headers } },
        fetch: boundedFetch,
        redirectPolicy: 'same-origin',
      })
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
    // Always read, or a server that writes much would stop.
    transport.stderr?.on('data', (chunk: Buffer) => onStderr(chunk.toString('utf8')))
    return client.connect(transport, { timeout: CONNECT_MS })
  }
  return { client, connect }
}

/** Responses to our messages are bounded. The stream of notifications is not: it lasts as long as the connection. */
const boundedFetch = async (url: string | URL, init: RequestInit = {}): Promise<Response> => {
  const response = await fetch(url, init)
  if (init.method !== 'POST' || response.body === null) return response
  let bytes = 0
  const bounded = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.byteLength
        if (bytes <= MAX_MESSAGE_BYTES) controller.enqueue(chunk)
        else controller.error(new Error(`the response exceeds ${MAX_MESSAGE_BYTES} bytes`))
      },
    }),
  )
  const { status, statusText, headers } = response
  return new Response(bounded, { status, statusText, headers })
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
