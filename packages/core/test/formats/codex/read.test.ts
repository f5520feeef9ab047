import { describe, expect, test } from 'vitest'
import { responsesOf } from '../outcome.ts'
import {
  agentMessage,
  clientTool,
  completed,
  type Fields,
  itemsOf,
  note,
  raw,
  rawCall,
  responseOf,
  said,
  started,
  textDelta,
  translate,
  turnCompleted,
  turnStarted,
} from './events.ts'
import { textRows } from './rows-text.ts'
import { command, toolRows } from './rows-tools.ts'

const metadataOf = (events: unknown[]) =>
  responseOf([turnStarted(), ...events, turnCompleted()]).output_items.map(
    ({ provider_metadata }) => provider_metadata,
  )

describe('items', () => {
  test.each([...textRows, ...toolRows])('$name', ({ events, items }) => {
    expect(itemsOf([turnStarted(), ...events, turnCompleted()])).toEqual(items)
  })

  test('text missing from the stream of a message is added', () => {
    const payloads = translate([
      turnStarted(),
      started(agentMessage('m', '')),
      textDelta('m', 'Hel'),
      completed(agentMessage('m', 'Hello')),
      turnCompleted(),
    ])
    const deltas = payloads.filter(({ type }) => type === 'item_delta')
    expect(deltas).toMatchObject([{ delta_content: 'Hel' }, { delta_content: 'lo' }])
  })

  test('calls appear in model order, whichever codex starts first', () => {
    const { output_items } = responseOf([
      turnStarted(),
      rawCall('a', 'one', '{}'),
      rawCall('b', 'two', '{}'),
      started(clientTool('b', { tool: 'two' })),
      started(clientTool('a', { tool: 'one' })),
      turnCompleted('interrupted'),
    ])
    expect(output_items).toMatchObject([{ name: 'one' }, { name: 'two' }])
  })

  test('only the call with oversized arguments fails', () => {
    const payloads = translate(
      [
        turnStarted(),
        rawCall('a', 'big', `{"x":"${'y'.repeat(20)}"}`),
        started(clientTool('a', { tool: 'big', arguments: { x: 'y'.repeat(20) } })),
        rawCall('b', 'small', '{"x":1}'),
        started(clientTool('b', { tool: 'small' })),
        turnCompleted('interrupted'),
      ],
      { maxArgumentChars: 10 },
    )
    expect(responsesOf(payloads)[0]?.output_items).toMatchObject([
      { name: 'big', error: { code: 'TOOL_ARGUMENTS_TOO_LARGE' } },
      { name: 'small', arguments: '{"x":1}' },
    ])
    expect(payloads.filter(({ type }) => type === 'item_error')).toHaveLength(1)
    expect(payloads.at(-1)).toMatchObject({ type: 'response_done', finish_reason: 'tool_calls' })
  })
})

describe('codex metadata', () => {
  test('keeps the name and phase of a message', () => {
    const item = { ...agentMessage('m', 'Hi'), phase: 'commentary', memoryCitation: null }
    expect(metadataOf([started(item), completed(item)])).toEqual([
      { codex: { id: 'm', phase: 'commentary' } },
    ])
  })

  test('keeps annotations, which only the raw message has', () => {
    const annotation = { type: 'url_citation', url: 'https://example.org' }
    const twin = raw({
      type: 'message',
      id: 'm',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'Hi', annotations: [annotation] }],
    })
    const history = raw({ type: 'message', id: 'h', role: 'developer', content: [] })
    expect(metadataOf([history, ...said('m', 'Hi'), twin])).toEqual([
      { codex: { id: 'm', annotations: [annotation] } },
    ])
  })

  test('keeps the result of a command', () => {
    const done = command({ source: 'agent', status: 'failed', exitCode: 3, durationMs: 7 })
    const [callMetadata, outputMetadata] = metadataOf([
      started(command({ source: 'agent' })),
      completed(done),
    ])
    expect(callMetadata).toEqual({
      executed_by: 'provider',
      codex: { type: 'commandExecution', source: 'agent' },
    })
    expect(outputMetadata).toEqual({
      executed_by: 'provider',
      codex: {
        type: 'commandExecution',
        source: 'agent',
        status: 'failed',
        exitCode: 3,
        durationMs: 7,
      },
    })
  })

  test('keeps what the user attached to the text', () => {
    const image = { type: 'image', url: 'data:,' }
    const item = { type: 'userMessage', id: 'q', content: [{ type: 'text', text: 'See' }, image] }
    expect(metadataOf([started(item), completed(item)])).toEqual([
      { codex: { id: 'q', content: [image] } },
    ])
  })
})

describe('unknown types', () => {
  test('are ignored and reported once per type', () => {
    const told: string[] = []
    const payloads = translate(
      [
        turnStarted(),
        note('item/hologram/delta', { itemId: 'h' }),
        note('item/hologram/delta', { itemId: 'h' }),
        started({ type: 'hologram', id: 'h' }),
        completed({ type: 'hologram', id: 'h' }),
        { type: 'mystery' },
        turnCompleted(),
      ],
      { onUnknown: (type) => told.push(type) },
    )
    expect(told).toEqual(['item/hologram/delta', 'item hologram', 'mystery'])
    expect(payloads.map(({ type }) => type)).toEqual(['response_start', 'response_done'])
  })

  test('client messages, replies and noise are not reported', () => {
    const told: string[] = []
    const payloads = translate(
      [
        { method: 'initialize', id: 0, params: {} },
        { id: 0, result: { userAgent: 'x' } },
        { id: 1, error: { code: -32600, message: 'no active turn to interrupt' } },
        note('thread/status/changed', { status: { type: 'idle' } }),
        { t: 1, dir: 'c2s', msg: turnStarted('other') },
        { t: 2, dir: 'meta', meta: { event: 'spawn' } },
        { t: 3, dir: 's2c', raw: 'not JSON' },
      ],
      { onUnknown: (type) => told.push(type) },
    )
    expect(told).toEqual([])
    expect(payloads).toMatchObject([
      { type: 'response_start' },
      { type: 'response_error', error: { code: 'UPSTREAM_TRUNCATED' } },
    ])
  })
})

describe('values without JSON', () => {
  test('are omitted', () => {
    const cycle: Fields = {}
    cycle['self'] = cycle
    const item = { type: 'mcpToolCall', id: 'x', tool: 'f', arguments: cycle, status: 'completed' }
    expect(itemsOf([turnStarted(), completed(item), turnCompleted()])).toMatchObject([
      { arguments: 'null' },
      { output: '' },
    ])
  })
})

test('the model is reported again when the thread settings change', () => {
  const settings = note('thread/settings/updated', { threadSettings: { model: 'gpt-y' } })
  expect(responseOf([settings, turnStarted(), turnCompleted()]).model_id).toBe('gpt-y')
})
