/** What a project that uses the published package looks like, as texts to write into it. */

export function importScript(schemas: readonly string[]): string {
  return `
import { ERROR_CODES, TurnstreamError } from 'turnstream'
import { createClient, EMPTY_VIEW } from 'turnstream/client'
import { shareConnections } from 'turnstream/client/share'
import { useThread } from 'turnstream/react'
import { MemoryLog } from 'turnstream/server'
import { describeTurnLog, fakeClock } from 'turnstream/testing'
${schemas.map((name, index) => `import schema${index} from 'turnstream/schema/${name}.json' with { type: 'json' }`).join('\n')}
import packageJson from 'turnstream/package.json' with { type: 'json' }

const schemas = [${schemas.map((_, index) => `schema${index}`).join(', ')}]
const cases = []
describeTurnLog(
  'a log',
  async ({ retentionMs }) => {
    const clock = fakeClock()
    const log = new MemoryLog({ retentionMs, clock })
    return { log, elapse: (ms) => clock.advance(ms), dispose: () => log.close() }
  },
  { describe: (name, body) => body(), test: (name, body) => cases.push(body) },
)
for (const run of cases) await run()
process.stdout.write(JSON.stringify({
  code: new TurnstreamError('TIMEOUT', 'waited').code,
  casesOfLogs: cases.length > 100,
  fakeTime: fakeClock(5).now(),
  turns: EMPTY_VIEW.turns,
  client: createClient({ share: shareConnections() }).turn('t').getSnapshot(),
  hook: useThread.name,
  schemas: schemas.map((schema) => schema.$id),
  version: packageJson.version,
}))
`
}

export const REQUIRE_SCRIPT = `
const { TurnstreamError } = require('turnstream')
const { EMPTY_VIEW } = require('turnstream/client')
const { MemoryLog } = require('turnstream/server')
const { fakeClock } = require('turnstream/testing')
const words = [new TurnstreamError('TIMEOUT', 'waited').code, fakeClock(5).now(), MemoryLog.name, EMPTY_VIEW.turns.length]
process.stdout.write(words.join(' ') + '\\n')
`

/** Prints the status of a request, and the code of one whose body is not JSON. */
export const TWO_HONOS = `
import { createOpenaiChatProvider } from 'turnstream'
import { createGateway, MemoryLog } from 'turnstream/server'

const provider = createOpenaiChatProvider({ id: 'local', baseUrl: 'http://127.0.0.1:1/v1' })
const gateway = createGateway({ log: new MemoryLog(), providers: [{ provider, defaultModel: 'm' }] })
const { status } = await gateway.app.request('/v1/models')
const headers = { 'content-type': 'application/json' }
const malformed = await gateway.app.request('/api/v2/submit', { method: 'POST', headers, body: '{' })
process.stdout.write(status + ' ' + (await malformed.json()).error.code + '\\n')
await gateway.close()
`

export const EVERYTHING = `
import * as turnstream from 'turnstream'
export const names = Object.keys(turnstream)
export const decoded = turnstream.decodeStreamEvent({})
`

export const TOKEN_PATH = `
import { ResponseStream, StreamProcessor } from 'turnstream'
export const stream = new ResponseStream()
export const processor = new StreamProcessor({
  turnId: 'turn',
  threadId: 'thread',
  onEmit: async () => {},
})
`

/** A user's program, compiled but not run. The lines marked as errors must stay errors. */
export const PROGRAM = `
import {
  type Content,
  type ItemSnapshot,
  type Message,
  type MessageSnapshot,
  type Provider,
  type ReducedResponse,
  type Response as OldResponse,
  ResponseStream,
  ResponseStreamError,
  RetryExhaustedError,
  type StreamEvent,
  type StreamOutput,
  StreamProcessor,
  type SnapshotStatus,
  type Status,
  type TurnstreamError,
  decodeStreamEvent,
} from 'turnstream'
import * as client from 'turnstream/client'
import { type AppendFrame, EMPTY_VIEW, append, apply, type TurnView, type View } from 'turnstream/client'
import { type SubmitState, type ThreadsState, useSubmit, useThread, useThreads, useTurn } from 'turnstream/react'
import * as server from 'turnstream/server'
import { type Lease, type LogWriter, MemoryLog, TurnExistsError, type TurnLog } from 'turnstream/server'
import { type SuiteRunner, describeTurnLog, fakeClock } from 'turnstream/testing'
import packageJson from 'turnstream/package.json' with { type: 'json' }
import streamEventSchema from 'turnstream/schema/stream-event.json' with { type: 'json' }

export const version: string = packageJson.version
export const schemaId: string = streamEventSchema.$id

export async function run(input: unknown): Promise<StreamOutput[]> {
  const outputs: StreamOutput[] = []
  const processor = new StreamProcessor({
    turnId: 'turn',
    threadId: 'thread',
    clock: fakeClock(),
    onEmit: async (message, output) => {
      const text: string = message.payload
      if (text !== '') outputs.push(output)
    },
    onError: (error: TurnstreamError) => error.code,
  })
  const decoded = decodeStreamEvent(input)
  if (!decoded.ok) throw new Error(decoded.reason)
  if (decoded.known) await processor.processEvent(decoded.value)
  await processor.flush()
  await processor.destroy()
  return outputs
}

export async function read(stream: ResponseStream<StreamEvent>): Promise<string> {
  let text = ''
  try {
    for await (const event of stream) {
      if (event.type === 'item_delta') text += event.payload.delta_content
    }
  } catch (error) {
    if (error instanceof ResponseStreamError || error instanceof RetryExhaustedError) return error.code
    throw error
  }
  return text
}

export function follow(options: client.ClientOptions, onText: (text: string) => void): () => void {
  const turn: client.Turn = client.createClient(options).submit({ prompt: 'Hi', model: 'm' })
  turn.accepted().catch((error: client.ClientError) => onText(error.code))
  return turn.subscribe(() => {
    const { turn: view, connection }: client.TurnState = turn.getSnapshot()
    onText(view?.items.at(-1)?.content ?? connection.cause?.message ?? connection.status)
  })
}

export function useAll(of: client.Client): [client.ThreadState, client.TurnState, SubmitState, ThreadsState] {
  return [useThread(of, 'thread'), useTurn(of, undefined), useSubmit(of), useThreads(of)]
}

/** With a transport of one's own. */
export function show(outputs: readonly StreamOutput[], frame: AppendFrame): readonly TurnView[] {
  const view: View = outputs.reduce(apply, EMPTY_VIEW)
  return (append(view, frame) ?? EMPTY_VIEW).turns
}

export async function submit(log: TurnLog, turnId: string): Promise<Lease | number> {
  try {
    return await log.create({ turnId, threadId: 'thread', owner: 'me' }, 10_000)
  } catch (error) {
    if (error instanceof TurnExistsError) return error.turn.ordinal
    throw error
  }
}

export async function keep(log: TurnLog, lease: Lease, events: AsyncIterable<StreamEvent>): Promise<void> {
  const writer: LogWriter<StreamEvent> = log.open(lease, 'events', { retryForMs: 1000 })
  for await (const event of events) if (!writer.write(event)) await writer.room()
  await writer.flush()
  writer.close()
  for await (const each of log.tail(lease.turnId, 'events', '0-0', new AbortController().signal)) {
    if ('resync' in each) continue
    const { offset, event }: { offset: string; event: StreamEvent } = each
    if (offset !== '' && event.type === 'heartbeat') break
  }
}

/** Each function of turnstream/server, with the names of what it takes and returns. */
interface ServerFunctions {
  connectMcpTools: (options: server.McpToolsOptions) => Promise<server.McpTools>
  createCodexProvider: (options: server.CodexProviderOptions) => server.CodexProvider
  createGateway: (options: server.GatewayOptions) => server.Gateway
  createHttpTool: (options: server.HttpToolOptions) => server.Tool
  createProviderFetch: (options?: server.ProviderFetchOptions) => typeof fetch
  createRequestListener: (gateway: server.Gateway) => Function
  endOrphan: (log: TurnLog, turnId: string, options: server.OrphanOptions) => Promise<server.OrphanResult>
  endOrphans: (log: TurnLog, options: server.OrphansOptions) => Promise<number>
  listen: (gateway: server.Gateway, options?: server.ListenOptions) => Promise<server.Listening>
  openEmbeddedLog: (options: server.EmbeddedLogOptions) => Promise<TurnLog>
  openRedisLog: (options?: server.RedisLogOptions) => Promise<TurnLog>
  parseKeysFile: (text: string) => server.KeyEntry[]
}
type FunctionName = {
  [Name in keyof typeof server]: (typeof server)[Name] extends (...args: never[]) => unknown ? Name : never
}[keyof typeof server]
export const functions: ServerFunctions = server
export const forgotten: Exclude<FunctionName, keyof ServerFunctions> extends never ? true : false = true

export function embed(log: TurnLog, provider: Provider): server.Gateway {
  const configured: server.ConfiguredProvider = { provider, defaultModel: 'model' }
  const limits: Partial<server.GatewayLimits> = { maxRunningTurns: 2 }
  const caps: Partial<server.TurnCaps> = { maxTurnItems: 10 }
  const tool: server.Tool = {
    name: 'clock',
    parameters: {},
    execute: (args: Record<string, unknown>, { signal }: server.ToolCallContext) => signal.aborted,
  }
  return server.createGateway({
    log,
    limits,
    caps,
    providers: [configured],
    tools: [tool],
    keys: new server.KeyRing([]),
    onRequest: ({ route }: server.RequestFacts) => route,
    onTurn: ({ turnId }: server.TurnFacts, outcome?: server.TurnOutcome) => [turnId, outcome],
    onError: (error: unknown, { requestId }: server.ErrorSubject) => [error, requestId],
  })
}

export function testMine(log: TurnLog, runner: SuiteRunner): void {
  const dispose = () => log.close()
  describeTurnLog('mine', async () => ({ log, elapse: async () => {}, dispose }), runner)
}

export const memory: TurnLog = new MemoryLog({ clock: fakeClock() })

export const defaults = new ResponseStream()
defaults.addEvent({ type: 'OutputTextDelta', delta: 'text' })
// @ts-expect-error a delta is a string
defaults.addEvent({ type: 'OutputTextDelta', delta: 1 })
/** What was renamed is there under its old name, too. */
export function renamed(now: [ItemSnapshot, MessageSnapshot, SnapshotStatus, ReducedResponse]): [Content, Message, Status, OldResponse] {
  return now
}
// @ts-expect-error a message has an origin
export const message: MessageSnapshot = { type: 'message', turnId: 't', threadId: 't', itemId: 'i', status: 'create', content: '' }
// @ts-expect-error onEmit is required
export const silent = new StreamProcessor({ turnId: 'turn', threadId: 'thread' })
`
