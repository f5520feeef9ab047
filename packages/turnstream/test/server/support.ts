/** A gateway on a port of its own, and calls to it whose answers are held against its own description. */

import { onTestFinished } from 'vitest'
import type { StreamEvent } from '../../../core/src/index.ts'
import type { TurnLog } from '../../../core/src/log/turn-log.ts'
import { createScriptedProvider, type Provider } from '../../src/index.ts'
import type { OpenApiDocument } from '../../src/server/openapi.ts'
import {
  createGateway,
  type Gateway,
  type GatewayOptions,
  listen,
  MemoryLog,
  type PortLimits,
  Providers,
} from '../../src/server.ts'
import { HeldProvider } from './held-provider.ts'
import { faultsOf } from './json-schema.ts'
import { UNLIMITED } from './unlimited.ts'

export interface TestServer {
  readonly url: string
  readonly gateway: Gateway
  readonly log: TurnLog
  readonly held: HeldProvider
  /** What was reported beside any answer. */
  readonly errors: { readonly error: unknown; readonly requestId?: string }[]
  readonly document: OpenApiDocument
  close(): Promise<void>
}

export interface ServerOptions extends Partial<GatewayOptions> {
  readonly providers?: Providers
  /** Further providers, after the two that are always there. */
  readonly more?: readonly Provider[]
  readonly host?: string
  readonly port?: Partial<PortLimits>
}

/** The same for all servers of a process. */
let described: OpenApiDocument | undefined

/** A server with a provider that answers at once and one that waits for the test; it ends with the test. */
export async function startServer(options: ServerOptions = {}): Promise<TestServer> {
  const { more = [], host, port, log = new MemoryLog(), ...rest } = options
  const held = new HeldProvider()
  const errors: TestServer['errors'] = []
  const gateway = createGateway({
    log,
    instance: 'test',
    shutdownGraceMs: 0,
    limits: UNLIMITED,
    providers: new Providers(
      [plainProvider(), held, ...more].map((provider) => ({
        provider,
        models: ['m'],
        defaultModel: 'm',
      })),
    ),
    onError: (error, { requestId }) => {
      errors.push({ error, ...(requestId !== undefined && { requestId }) })
    },
    ...rest,
  })
  const listening = await listen(gateway, {
    ...port,
    port: 0,
    ...(host !== undefined && { host }),
  })
  onTestFinished(() => listening.close())
  const { url } = listening
  described ??= (await (await fetch(`${url}/openapi.json`)).json()) as OpenApiDocument
  const document = described
  return { url, gateway, log, held, errors, document, close: () => listening.close() }
}

const AT = 1_700_000_000_000

function recorded(payloads: readonly StreamEvent['payload'][]): StreamEvent[] {
  return payloads.map((payload, index) => ({
    ...{ event_id: `e${index}`, timestamp: AT, trace_context: { traceparent: '' }, run_id: 'r' },
    ...{ type: payload.type, payload },
  })) as StreamEvent[]
}

/** Answers everything with "Hello, world." */
function plainProvider(): Provider {
  const content = 'Hello, world.'
  const final_item = { type: 'message', id: 'a', content, origin: 'agent' } as const
  const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
  const ids = { response_id: 'x', turn_id: 't', thread_id: 'h' }
  const names = { model_id: 'm', provider_id: 'plain', created_at: AT }
  const recording = recorded([
    { type: 'response_start', ...ids, ...names },
    { type: 'item_start', item_id: 'a', item_type: 'message', origin: 'agent' },
    { type: 'item_delta', item_id: 'a', delta_content: content },
    { type: 'item_done', item_id: 'a', final_item },
    { type: 'response_done', response_id: 'x', status: 'complete', usage, finish_reason: 'stop' },
  ])
  return createScriptedProvider({ id: 'plain', recordings: { m: recording }, speed: Infinity })
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  // oxlint-disable-next-line typescript/no-explicit-any -- what it holds is what the test is about
  readonly json: any
}

export interface CallOptions {
  readonly headers?: Record<string, string>
  /** Sent as JSON. */
  readonly body?: unknown
}

/** One request. An answer that the server's own description does not allow is an error. */
export async function call(
  server: TestServer,
  request: `${string} /${string}`,
  { headers = {}, body }: CallOptions = {},
): Promise<Answer> {
  const [method = '', path = ''] = request.split(' ')
  const response = await fetch(`${server.url}${path}`, {
    method,
    redirect: 'manual',
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type') === 'application/json'
  const json: unknown = isJson && text !== '' ? JSON.parse(text) : text
  checkAnswer(server.document, { method, path, status: response.status, json, isJson })
  return { status: response.status, headers: response.headers, json }
}

interface Given {
  method: string
  path: string
  status: number
  json: unknown
  isJson: boolean
}

function checkAnswer(document: OpenApiDocument, given: Given): void {
  const { method, path, status, json, isJson } = given
  const operation = operationOf(document, method, path)
  if (operation === undefined || !isJson) return
  const schema = operation.responses[status]?.content?.['application/json']?.schema
  if (schema === undefined) throw new Error(`${method} ${path}: ${status} is not documented`)
  const faults = faultsOf(schema, json, document)
  if (faults.length > 0) throw new Error(`${method} ${path}: ${faults.join('; ')}`)
}

function operationOf(document: OpenApiDocument, method: string, path: string) {
  const [bare = ''] = path.split('?')
  for (const [template, operations] of Object.entries(document.paths)) {
    const pattern = new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`)
    const operation = operations[method.toLowerCase()]
    if (pattern.test(bare) && operation !== undefined) return operation
  }
  return undefined
}

/** A turn that is submitted and has run to its end. */
export async function finishedTurn(server: TestServer, body: Record<string, unknown> = {}) {
  const { json } = await call(server, 'POST /api/v2/submit', { body: { prompt: 'Hi', ...body } })
  const { turnId } = json as { turnId: string }
  await sealed(server.log, turnId)
  return json as { runId: string; turnId: string; threadId: string }
}

/** Waits until both logs of a turn have their ends. */
export async function sealed(log: TurnLog, turnId: string): Promise<void> {
  for (const name of ['events', 'processed'] as const) {
    const records = []
    const tail = log.tail(turnId, name, '0-0', new AbortController().signal)
    for await (const record of tail) records.push(record)
  }
}

/** Reads a stream until a text comes, and leaves then. */
export async function readUntil(
  url: string,
  text: string,
  sent: Record<string, string> = {},
): Promise<Answer> {
  const leave = new AbortController()
  const { status, headers, body } = await fetch(url, { signal: leave.signal, headers: sent })
  let read = ''
  for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    read += chunk
    if (read.includes(text)) break
  }
  leave.abort()
  return { status, headers, json: read }
}

/** A turn of the provider that waits, with its call. */
export async function heldTurn(server: TestServer, body: Record<string, unknown> = {}) {
  const next = server.held.nextCall()
  const { json, status } = await call(server, 'POST /api/v2/submit', {
    body: { prompt: 'Hi', providerId: 'held', ...body },
  })
  if (status !== 202) throw new Error(`${status} ${JSON.stringify(json)}`)
  return { ...(json as { runId: string; turnId: string; threadId: string }), call: await next }
}
