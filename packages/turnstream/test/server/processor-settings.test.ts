/** What the settings of the processor change for the readers of a gateway. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { AppendOptions, TextRecord } from '../../../conformance/src/turn-log/append.ts'
import { type StreamOutput, TurnstreamError } from '../../../core/src/index.ts'
import type { Lease, LogName } from '../../../core/src/log/turn-log.ts'
import {
  createAnthropicMessagesProvider,
  createGeminiProvider,
  createOpenaiChatProvider,
  createOpenaiResponsesProvider,
  type HttpProviderOptions,
  type Provider,
} from '../../src/index.ts'
import { type GatewayOptions, MemoryLog } from '../../src/server.ts'
import { HookedLog } from '../log/hooked-log.ts'
import { call, heldTurn, readUntil, startServer, type TestServer } from './support.ts'

type Settings = NonNullable<GatewayOptions['processor']>

const HOUR = 3_600_000
/** Nothing is emitted by time. */
const PATIENT = { batchTimeoutMs: HOUR, maxLatencyMs: HOUR }

function outputsOf(stream: unknown): StreamOutput[] {
  const frames = String(stream).matchAll(/^data: (\{.*)$/gm)
  return [...frames].map(([, data = '']) => JSON.parse(data) as StreamOutput)
}

function statusesOf(stream: unknown, type: StreamOutput['type']): string[] {
  return outputsOf(stream).flatMap((each) =>
    each.type === type && 'status' in each && !('origin' in each && each.origin === 'user')
      ? [each.status]
      : [],
  )
}

function streamOf({ url }: TestServer, turnId: string, query = ''): string {
  return `${url}/xapi/turns/${turnId}/stream${query}`
}

/** Resolves when the events of a turn contain a text. */
async function stored({ log }: TestServer, turnId: string, text: string): Promise<void> {
  const leave = new AbortController()
  for await (const record of log.tail(turnId, 'events', '0-0', leave.signal)) {
    if ('event' in record && JSON.stringify(record.event).includes(text)) return leave.abort()
  }
}

/** A server whose time stands still. */
async function frozenServer(processor: Settings) {
  const clock = fakeClock()
  return { clock, server: await startServer({ processor, clock, log: new MemoryLog({ clock }) }) }
}

describe('a text of three tokens that goes on', () => {
  const rows: [what: string, Settings, afterMs: number, statuses: string[]][] = [
    ['held below the first step of the gradient', PATIENT, 5000, ['complete']],
    ['held with an empty gradient', { ...PATIENT, batchGradient: [] }, 5000, ['complete']],
    ['seen past the first step', { ...PATIENT, batchGradient: [2] }, 0, ['create', 'complete']],
    ['seen after the batch timeout', { ...PATIENT, batchTimeoutMs: 7 }, 7, ['create', 'complete']],
    ['held until the batch timeout', { ...PATIENT, batchTimeoutMs: 7 }, 6, ['complete']],
    ['seen after the latency', { ...PATIENT, maxLatencyMs: 7 }, 7, ['create', 'complete']],
    ['held until the latency', { ...PATIENT, maxLatencyMs: 7 }, 6, ['complete']],
  ]
  test.each(rows)('is %s', async (_what, processor, afterMs, statuses) => {
    const { server, clock } = await frozenServer(processor)
    const { turnId, call: held } = await heldTurn(server)
    const until = await openStream(streamOf(server, turnId))
    held.say('twelve chars')
    await stored(server, turnId, 'twelve chars')
    await clock.advance(afterMs)
    if (statuses.length > 1) await until('"create"')
    held.finish()
    expect(statusesOf(await until('"turn_complete"'), 'message')).toEqual(statuses)
  })
})

describe('streamed arguments of three tokens', () => {
  test.each([
    ['sent past the first step of the gradient', { ...PATIENT, batchGradient: [2] }, 0],
    ['sent after the batch timeout', { ...PATIENT, batchTimeoutMs: 7 }, 7],
  ])('are %s', async (_what, processor, afterMs) => {
    const { server, clock } = await frozenServer(processor)
    const { turnId, call: held } = await heldTurn(server)
    const open = { item_id: 'c', item_type: 'function_call', name: 'f', call_id: 'c1' } as const
    held.stream.addEvent({ type: 'item_start', ...open })
    held.stream.addEvent({ type: 'item_delta', item_id: 'c', delta_content: '{' })
    const until = await openStream(streamOf(server, turnId, '?arguments=stream'))
    // What there is when a reader comes is sent at once.
    await until('"toolArgumentsText":"{"')
    held.stream.addEvent({ type: 'item_delta', item_id: 'c', delta_content: '"city": "Bo' })
    await stored(server, turnId, 'Bo')
    await clock.advance(afterMs)
    expect(statusesOf(await until('Bo'), 'tool_call')).toEqual(['create', 'update'])
    held.finish()
    await until('"turn_complete"')
  })
})

/** Opens a stream. The returned function reads on until a text has come. */
async function openStream(url: string) {
  const leave = new AbortController()
  onTestFinished(() => leave.abort())
  const { body } = await fetch(url, { signal: leave.signal })
  const chunks = body?.pipeThrough(new TextDecoderStream()).getReader()
  let read = ''
  return async (text: string): Promise<string> => {
    while (!read.includes(text)) {
      const { value } = (await chunks?.read()) ?? {}
      if (value === undefined) throw new Error(`the stream ended before ${text}: ${read}`)
      read += value
    }
    return read
  }
}

/** A store that refuses the events of a text this many times. */
class RefusingLog extends HookedLog {
  failures: number

  constructor(failures: number) {
    super()
    this.failures = failures
  }

  override append(
    lease: Lease,
    name: LogName,
    records: readonly TextRecord[],
    options?: AppendOptions,
  ): Promise<string> {
    const isText = records.some(({ data }) => data.includes('Hello, world.'))
    if (name !== 'events' || !isText || this.failures === 0) {
      return super.append(lease, name, records, options)
    }
    this.failures -= 1
    return Promise.reject(new TurnstreamError('STORE_UNAVAILABLE', 'the wire was cut'))
  }
}

describe('a write that the store refuses three times', () => {
  const rows: [what: string, retryAttempts: number | undefined, last: string][] = [
    ['succeeds with the third retry', 3, 'turn_complete'],
    ['costs the turn when two retries are allowed', 2, 'PRODUCER_LOST'],
    ['costs the turn when no retry is allowed', 0, 'PRODUCER_LOST'],
    ['succeeds by default, within the lease', undefined, 'turn_complete'],
  ]
  test.each(rows)('%s', async (_what, retryAttempts, last) => {
    const log = new RefusingLog(3)
    const processor = {
      retryBaseMs: 1,
      retryMaxMs: 2,
      ...(retryAttempts !== undefined && { retryAttempts }),
    }
    const server = await startServer({ log, leaseMs: 500, processor })
    const { json } = await call(server, 'POST /api/v2/submit', { body: { prompt: 'Hi' } })
    const { turnId } = json as { turnId: string }
    const { json: stream } = await readUntil(streamOf(server, turnId), last)
    expect(outputsOf(stream).at(-1)?.type).toBe(
      last === 'turn_complete' ? 'turn_complete' : 'turn_error',
    )
    expect(3 - log.failures).toBe(Math.min(3, (retryAttempts ?? 3) + 1))
  })
})

const ARGUMENTS = '{"city":"Berlin"}'

interface VendorRow {
  readonly create: (options: HttpProviderOptions) => Provider
  readonly events: readonly { readonly type?: string; readonly [key: string]: unknown }[]
}

const VENDORS: Record<string, VendorRow> = {
  'openai-chat': {
    create: createOpenaiChatProvider,
    events: [
      {
        id: 'x',
        choices: [
          {
            index: 0,
            delta: {
              tool_calls: [
                { index: 0, id: 'c1', function: { name: 'weather', arguments: ARGUMENTS } },
              ],
            },
          },
        ],
      },
      { id: 'x', choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
    ],
  },
  'openai-responses': {
    create: createOpenaiResponsesProvider,
    events: [
      { type: 'response.created', response: { id: 'r' } },
      {
        type: 'response.output_item.added',
        output_index: 0,
        item: { type: 'function_call', id: 'f', call_id: 'c1', name: 'weather', arguments: '' },
      },
      {
        type: 'response.function_call_arguments.delta',
        item_id: 'f',
        output_index: 0,
        delta: ARGUMENTS,
      },
      { type: 'response.completed', response: { id: 'r', status: 'completed' } },
    ],
  },
  anthropic: {
    create: createAnthropicMessagesProvider,
    events: [
      { type: 'message_start', message: { id: 'm', usage: {} } },
      {
        type: 'content_block_start',
        index: 0,
        content_block: { type: 'tool_use', id: 'c1', name: 'weather', input: {} },
      },
      {
        type: 'content_block_delta',
        index: 0,
        delta: { type: 'input_json_delta', partial_json: ARGUMENTS },
      },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: {} },
      { type: 'message_stop' },
    ],
  },
  gemini: {
    create: createGeminiProvider,
    events: [
      {
        candidates: [
          {
            content: {
              parts: [{ functionCall: { name: 'weather', args: { city: 'Berlin' } } }],
            },
            finishReason: 'STOP',
          },
        ],
      },
    ],
  },
}

describe('arguments of 17 characters', () => {
  const limits: [what: string, Settings, own: { maxArgumentChars?: number }, status: string][] = [
    ['complete with the default', {}, {}, 'create'],
    ['failed with a limit of 16', { maxArgumentChars: 16 }, {}, 'error'],
    ['complete with a limit of 17', { maxArgumentChars: 17 }, {}, 'create'],
    [
      "failed whatever the provider's own limit",
      { maxArgumentChars: 16 },
      { maxArgumentChars: 99 },
      'error',
    ],
    ["failed with the provider's own limit alone", {}, { maxArgumentChars: 16 }, 'error'],
  ]
  const rows = Object.keys(VENDORS).flatMap((vendor) =>
    limits.map(([what, ...rest]) => [vendor, what, ...rest] as const),
  )
  test.each(rows)('of %s are %s', async (vendor, _what, processor, own, status) => {
    const { create, events } = VENDORS[vendor] as VendorRow
    const body = events
      .map((event) => `event: ${event.type ?? 'message'}\ndata: ${JSON.stringify(event)}\n\n`)
      .join('')
    const fetch = async () =>
      new Response(body, { headers: { 'content-type': 'text/event-stream' } })
    const provider = create({
      id: 'vendor',
      apiKey: 'k',
      baseUrl: 'http://127.0.0.1:1',
      fetch,
      ...own,
    })
    const server = await startServer({ more: [provider], processor })
    const { json } = await call(server, 'POST /api/v2/submit', {
      body: { prompt: 'Hi', providerId: 'vendor' },
    })
    const { json: stream } = await readUntil(
      streamOf(server, (json as { turnId: string }).turnId),
      '"turn_complete"',
    )
    expect(statusesOf(stream, 'tool_call')).toEqual([status])
    expect(String(stream).includes('TOOL_ARGUMENTS_TOO_LARGE')).toBe(status === 'error')
  })
})

describe('createGateway refuses', () => {
  const rows: [settings: Settings, name: string][] = [
    [{ batchGradient: [0] }, 'processor.batchGradient'],
    [{ batchGradient: [10, Number.NaN] }, 'processor.batchGradient'],
    [{ batchGradient: Array.from({ length: 1001 }, () => 1) }, 'processor.batchGradient'],
    [{ batchGradient: 10 as unknown as number[] }, 'processor.batchGradient'],
    [{ batchTimeoutMs: 0 }, 'processor.batchTimeoutMs'],
    [{ batchTimeoutMs: HOUR + 1 }, 'processor.batchTimeoutMs'],
    [{ maxLatencyMs: Number.NaN }, 'processor.maxLatencyMs'],
    [{ retryAttempts: -1 }, 'processor.retryAttempts'],
    [{ retryAttempts: 1.5 }, 'processor.retryAttempts'],
    [{ retryBaseMs: 0 }, 'processor.retryBaseMs'],
    [{ retryBaseMs: 10_001 }, 'processor.retryBaseMs'],
    [{ retryMaxMs: Infinity }, 'processor.retryMaxMs'],
    [{ maxArgumentChars: 0 }, 'processor.maxArgumentChars'],
    [{ maxArgumentChars: Infinity }, 'processor.maxArgumentChars'],
  ]
  test.each(rows)('%o', async (processor, name) => {
    await expect(startServer({ processor })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining(`${name} must be`) as string,
    })
  })
})
