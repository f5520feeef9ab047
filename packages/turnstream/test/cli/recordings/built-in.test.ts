import { describe, expect, test } from 'vitest'
import { DEMOS as recordings } from '../../../../../test/demo-recordings.ts'
import { fakeClock } from '../../../../conformance/src/index.ts'
import {
  isExecutedByProvider,
  isStreamEvent,
  type Recording,
  ResponseReducer,
  type StreamEvent,
  type StreamOutput,
  StreamProcessor,
  stamp,
} from '../../../../core/src/index.ts'
import { DEMO_MODELS } from '../../../src/cli/demo/recordings.ts'
import { createScriptedProvider } from '../../../src/index.ts'

function deltasOf(recording: Recording, itemId?: string): string[] {
  return recording.flatMap(({ payload }) => {
    const isWanted =
      payload.type === 'item_delta' && (itemId ?? payload.item_id) === payload.item_id
    return isWanted ? [payload.delta_content] : []
  })
}

/** Plays a recording as the server would, without waiting. */
async function play(model: string): Promise<StreamEvent[]> {
  const provider = createScriptedProvider({ recordings, speed: Infinity })
  const run = { runId: 'run', turnId: 'run', threadId: 'thread' }
  const events: StreamEvent[] = []
  const payloads = provider.stream({ model, input: [] }, run)
  for await (const event of stamp(payloads)) events.push(event)
  return events
}

async function outputsOf(model: string): Promise<StreamOutput[]> {
  const outputs: StreamOutput[] = []
  const processor = new StreamProcessor({
    turnId: 'run',
    threadId: 'thread',
    clock: fakeClock(),
    onEmit: (_message, output) => {
      outputs.push(output)
    },
  })
  for (const event of await play(model)) await processor.processEvent(event)
  await processor.destroy()
  return outputs
}

describe.each(DEMO_MODELS)('the recording %s', (name) => {
  const recording = recordings[name]

  test('has valid events with unique ids in time order', () => {
    expect(recording.every((event) => isStreamEvent(event))).toBe(true)
    expect(new Set(recording.map(({ event_id }) => event_id)).size).toBe(recording.length)
    const times = recording.map(({ timestamp }) => timestamp)
    expect(times).toEqual(times.toSorted((a, b) => a - b))
  })

  test('streams every text completely', () => {
    for (const { payload } of recording) {
      if (payload.type !== 'item_done' || !('content' in payload.final_item)) continue
      expect(deltasOf(recording, payload.item_id).join('')).toBe(payload.final_item.content)
    }
  })

  test('ends', async () => {
    const reducer = new ResponseReducer()
    for (const event of await play(name)) reducer.apply(event)
    const status = name === 'error' ? 'error' : 'complete'
    expect(reducer.response).toMatchObject({ status, model_id: name, provider_id: 'scripted' })
  })
})

test('the first one is the default', () => {
  expect(DEMO_MODELS).toEqual(['answer', 'thinking', 'tools', 'error', 'long'])
})

test.each(['answer', 'thinking', 'tools', 'error'] as const)(
  'the texts of %s arrive at 30 to 60 deltas per second',
  (name) => {
    const gaps = recordings[name].flatMap(({ timestamp, type }, index, all) => {
      const before = all[index - 1]
      const isInside = type === 'item_delta' && before?.type === 'item_delta'
      return isInside ? [timestamp - before.timestamp] : []
    })
    const perSecond = (1000 * gaps.length) / gaps.reduce((sum, gap) => sum + gap, 0)
    expect(perSecond).toBeGreaterThan(30)
    expect(perSecond).toBeLessThan(60)
  },
)

describe('the contents', () => {
  test('answer: one message', async () => {
    const outputs = await outputsOf('answer')
    expect(new Set(outputs.map(({ type }) => type))).toEqual(
      new Set(['turn_started', 'message', 'turn_complete']),
    )
  })

  test('thinking: reasoning, and then the answer', async () => {
    const kinds = (await outputsOf('thinking')).map(({ type }) => type)
    expect(kinds.lastIndexOf('thinking')).toBeLessThan(kinds.indexOf('message'))
  })

  test('tools: parallel calls run by the provider, answered as they finish', async () => {
    const { tools } = recordings
    const calls = tools.flatMap(({ payload }) =>
      payload.type === 'item_done' && payload.final_item.type === 'function_call'
        ? [payload.final_item]
        : [],
    )
    const starts = tools.flatMap(({ payload }, index) =>
      payload.type === 'item_start' && payload.item_type === 'function_call' ? [index] : [],
    )
    const firstDone = tools.findIndex(
      ({ payload }) => payload.type === 'item_done' && payload.final_item.type === 'function_call',
    )
    expect(calls.length).toBeGreaterThan(1)
    expect(Math.max(...starts)).toBeLessThan(firstDone)
    expect(calls.every(({ provider_metadata }) => isExecutedByProvider(provider_metadata))).toBe(
      true,
    )
    const outputs = await outputsOf('tools')
    const done = outputs.filter(({ type, ...rest }) => type === 'tool_call' && 'success' in rest)
    expect(done).toHaveLength(calls.length)
    const order = done.map((output) => ('callId' in output ? output.callId : ''))
    expect(order).not.toEqual(calls.map(({ call_id }) => call_id))
    expect(order.toSorted()).toEqual(calls.map(({ call_id }) => call_id).toSorted())
  })

  test('error: a truncated text and an error code', async () => {
    const outputs = await outputsOf('error')
    const error = { code: 'overloaded_error' }
    expect(outputs.at(-2)).toMatchObject({
      type: 'message',
      status: 'error',
      errorCode: error.code,
    })
    expect(outputs.at(-1)).toMatchObject({ type: 'turn_error', error })
  })

  test('long: at least 20,000 tokens, with every number once', () => {
    const text = deltasOf(recordings.long).join('')
    expect(text.length / 4).toBeGreaterThan(20_000)
    const numbers = [...text.matchAll(/^\*\*(\d+)\*\*/gm)].map(([, number]) => Number(number))
    expect(numbers).toEqual(Array.from({ length: 640 }, (_, index) => index + 1))
  })

  test('an unknown name is an error that lists the recordings', async () => {
    const events = await play('nonsense')
    expect(events.at(-1)?.payload).toMatchObject({
      type: 'response_error',
      error: {
        code: 'MODEL_UNKNOWN',
        message: expect.stringContaining(DEMO_MODELS.join(', ')),
      },
    })
  })
})
