/** Clients of vendors' APIs that are cut off, on connections of their own. */
import { expect, onTestFinished, vi } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { payloads } from '../../../conformance/src/index.ts'
import type { KeyedRecords, TurnLog } from '../../../core/src/log/turn-log.ts'
import type { TestServer } from './support.ts'
import { Wire } from './wire.ts'

export const HELLO = [{ role: 'user', content: 'Hello' }]
const CHAT = '/v1/chat/completions'

interface Door {
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  /** How a stream ends. */
  readonly last: string
  readonly id: (turnId: string) => string
}

export const DOORS: readonly (readonly [string, Door])[] = [
  [
    'chat completions',
    {
      path: CHAT,
      body: { model: 'held/m', messages: HELLO },
      last: '[DONE]',
      id: (turnId) => `chatcmpl-${turnId}`,
    },
  ],
  [
    'responses',
    {
      path: '/v1/responses',
      body: { model: 'held/m', input: 'Hello' },
      last: '[DONE]',
      id: (turnId) => `resp_${turnId}`,
    },
  ],
  [
    'messages',
    {
      path: '/v1/messages',
      body: { model: 'held/m', max_tokens: 100, messages: HELLO },
      last: 'message_stop',
      id: (turnId) => `msg_${turnId}`,
    },
  ],
]

export const STREAM = { model: 'held/m', messages: HELLO, stream: true }

export interface Request {
  readonly path?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends a request on a connection of its own. */
export async function ask(
  server: TestServer,
  { path = CHAT, body = STREAM, headers = {} }: Request = {},
): Promise<Wire> {
  const wire = await Wire.open(server.url)
  onTestFinished(() => wire.close())
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const given = { host: 'a', 'content-type': 'application/json', ...headers }
  const lines = Object.entries(given).map(([name, value]) => `${name}: ${value}\r\n`)
  const length = Buffer.byteLength(text)
  wire.send(`POST ${path} HTTP/1.1\r\n${lines.join('')}content-length: ${length}\r\n\r\n${text}`)
  return wire
}

/** A request whose answer has begun. */
export async function begin(server: TestServer, request?: Request) {
  const next = server.held.nextCall()
  const wire = await ask(server, request)
  const call = await next
  call.say('One ')
  return { wire, call }
}

/** How storing each departure ended. Other records are left out. */
export function departuresIn({
  mock,
}: import('vitest').MockInstance<KeyedRecords['add']>): string[] {
  const results = mock.settledResults.map(({ type }) => type)
  return results.filter((_, at) => !mock.calls[at]?.[0].startsWith('chain:'))
}

/** Waits for departures that a log has stored. */
export function watchDepartures(log: TurnLog) {
  const add = vi.spyOn(log.keyedRecords, 'add')
  return (count: number) =>
    eventually(() => expect(departuresIn(add)).toEqual(Array(count).fill('fulfilled')))
}

/** A request whose client was cut off in the middle of a streamed answer. */
export async function cutOff(server: TestServer, request?: Request) {
  const departures = watchDepartures(server.log)
  const { wire, call } = await begin(server, request)
  await wire.until('One ')
  wire.close()
  await departures(1)
  return { call, departures }
}

/** The head and all of the body, without the framing and the time. */
export function contentOf(wire: Wire): string {
  const body = wire.text.slice(wire.text.indexOf('\r\n\r\n') + 4)
  return body.replaceAll(/^(?:[\da-f]+)?\r\n/gm, '')
}

export function turnsOf(server: TestServer): number {
  return server.held.calls.length
}

/** Ends the answer with an error of the provider. */
export function fail(call: Awaited<ReturnType<typeof begin>>['call']): void {
  const error = { code: 'HTTP_500', message: 'the provider failed' }
  call.stream.addEvent(payloads.responseError(error))
  call.stream.complete()
}
