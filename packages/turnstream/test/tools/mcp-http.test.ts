/** A remote MCP server that misbehaves, made of a few JSON-RPC responses. */

import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { connectMcpTools } from '../../src/server.ts'
import { pacedBody } from '../../src/tools/mcp-client.ts'

interface Message {
  readonly id?: number | string
  readonly method: string
  readonly params?: { readonly protocolVersion?: string }
}

const TOOL = { name: 'look', inputSchema: { type: 'object' } }

function resultOf({ method, params }: Message): object | undefined {
  if (method === 'tools/list') return { tools: [TOOL] }
  if (method !== 'initialize') return undefined
  return {
    protocolVersion: params?.protocolVersion,
    capabilities: { tools: { listChanged: true } },
    serverInfo: { name: 'test', version: '1' },
  }
}

const SSE = { 'content-type': 'text/event-stream' }

/** Calls of tools, and the stream of notifications, are left to the test. */
async function connect(handlers: {
  onCall?: (message: Message, response: ServerResponse) => void
  onStream?: (response: ServerResponse) => void
}) {
  const methods: string[] = []
  const server = createServer((request, response) => {
    if (request.method !== 'POST') {
      if (request.method !== 'GET' || handlers.onStream === undefined) response.writeHead(405).end()
      else handlers.onStream(response.writeHead(200, SSE))
      return
    }
    void text(request).then((body) => {
      const message = JSON.parse(body) as Message
      const { id, method } = message
      methods.push(method)
      if (method === 'tools/call') return handlers.onCall?.(message, response)
      if (id === undefined) return response.writeHead(202).end()
      const result = resultOf(message)
      const error = { code: -32_601, message: 'unknown method' }
      response.setHeader('content-type', 'application/json')
      return response.end(
        JSON.stringify({ jsonrpc: '2.0', id, ...(result === undefined ? { error } : { result }) }),
      )
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const logs: string[] = []
  const tools = await connectMcpTools({
    name: 'remote',
    server: { url: `http://127.0.0.1:${port}/mcp` },
    onLog: (message) => logs.push(message),
  })
  const die = async () => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  onTestFinished(async () => {
    await tools.close()
    await die()
  })
  const { signal } = new AbortController()
  const call = () =>
    tools.tools[0]?.execute({}, { turnId: 't', threadId: 'h', callId: 'c', signal })
  return { tools, call, logs, methods, die }
}

test.each([
  ['cut', (response: ServerResponse) => response.destroy()],
  ['ended', (response: ServerResponse) => response.end()],
])('a call whose stream is %s fails at once, and the next one is made', async (_what, stop) => {
  let calls = 0
  const { tools, call } = await connect({
    onCall: ({ id }, response) => {
      response.writeHead(200, SSE)
      calls += 1
      const result = { content: [{ type: 'text', text: 'seen' }] }
      if (calls > 1) response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result })}\n\n`)
      else response.write(': wait\n\n', () => stop(response))
    },
  })
  await expect(call()).rejects.toThrow('the MCP server failed: the connection closed')
  expect(tools.isConnected).toBe(true)
  expect(await call()).toBe('seen')
})

test.each([
  ['a stream', ': wait\n\n'],
  ['a stream that could be resumed', 'id: 1\ndata:\n\n'],
  ['no response', ''],
])('a call with %s fails at once when the server dies', async (_what, begun) => {
  let onBegun = () => {}
  const isBegun = new Promise<void>((resolve) => {
    onBegun = resolve
  })
  const { tools, call, die } = await connect({
    onCall: (_message, response) => {
      if (begun === '') return onBegun()
      response.writeHead(200, SSE).write(begun, onBegun)
    },
  })
  const outcome = Promise.allSettled([call()])
  await isBegun
  await die()
  const message: unknown = expect.stringContaining('the MCP server failed')
  expect(await outcome).toMatchObject([{ status: 'rejected', reason: { message } }])
  await expect.poll(() => tools.isConnected).toBe(false)
  await expect(call()).rejects.toThrow('the MCP server is not connected')
})

test('a flood of notifications is read 4 KB in each iteration of the event loop', async () => {
  const bytes = new TextEncoder().encode('data: {}\n\n'.repeat(100_000))
  const perTurn = new Map<number, number>()
  let turn = 0
  let isOver = false
  const nextTurn = () => {
    turn += 1
    if (!isOver) setImmediate(nextTurn)
  }
  nextTurn()
  for await (const part of pacedBody(new Blob([bytes]).stream(), Infinity)) {
    perTurn.set(turn, (perTurn.get(turn) ?? 0) + part.byteLength)
  }
  isOver = true
  expect(Math.max(...perTurn.values())).toBeLessThanOrEqual(4 * 1024)
  expect([...perTurn.values()].reduce((sum, each) => sum + each)).toBe(bytes.byteLength)
})

test('a server that announces new tools all the time is asked for them once at a time', async () => {
  let stream: ServerResponse | undefined
  const { tools, methods, call } = await connect({
    onStream: (response) => {
      stream = response
      response.write(': open\n\n')
    },
    onCall: ({ id }, response) => {
      const result = { content: [{ type: 'text', text: 'seen' }] }
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    },
  })
  await expect.poll(() => stream).toBeDefined()
  const note = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' }
  stream?.write(`data: ${JSON.stringify(note)}\n\n`.repeat(2000))
  expect(await call()).toBe('seen')
  const lists = () => methods.filter((each) => each === 'tools/list').length
  await expect.poll(lists, { timeout: 5000 }).toBeGreaterThan(1)
  expect(lists()).toBeLessThan(5)
  expect(tools.isConnected).toBe(true)
})
