import { describe, expect, test } from 'vitest'
import {
  type Cassette,
  type CassetteCall,
  compareCassettes,
  type TimedEvent,
} from '../../src/index.ts'
import { cassetteOf, recordedCall, toolsEvents } from './samples.ts'

/** The same events with other ids and times. */
function renamed(events: readonly TimedEvent[]): TimedEvent[] {
  const text = JSON.stringify(events)
    .replaceAll(/recorded-(turn|thread|call-\d|\d+)/g, 'other-$1')
    .replaceAll(/"timestamp":(\d+)/g, (_, ms: string) => `"timestamp":${Number(ms) + 7}`)
  return JSON.parse(text) as TimedEvent[]
}

function replaceText(call: CassetteCall, from: string, to: string): CassetteCall {
  const text = call.chunks.map(({ bytes }) => Buffer.from(bytes).toString('latin1')).join('')
  expect(text).toContain(from)
  const bytes = new Uint8Array(Buffer.from(text.replace(from, to), 'latin1'))
  return { ...call, chunks: [{ at: 100, bytes }] }
}

const turn = cassetteOf({ events: toolsEvents() })

describe('equal', () => {
  test.each<[string, Cassette, Cassette]>([
    ['the same turn', turn, turn],
    ['other ids and times', turn, cassetteOf({ events: renamed(toolsEvents()) })],
    [
      'other chunks',
      cassetteOf({ calls: [recordedCall('chat', 1, 5)] }),
      cassetteOf({ calls: [recordedCall('chat', 1, 5000)] }),
    ],
    [
      'split and heartbeats',
      turn,
      cassetteOf({ events: [...withHeartbeat(splitDeltas(toolsEvents()))] }),
    ],
    ['vendor bytes of one only', turn, { ...turn, calls: [recordedCall('chat')] }],
  ])('%s', (_name, a, b) => {
    expect(compareCassettes(a, b)).toBeUndefined()
  })
})

describe('different', () => {
  test('ids, on request', () => {
    const other = cassetteOf({ events: renamed(toolsEvents()) })
    expect(compareCassettes(turn, other, { ids: true })).toMatchObject({
      layer: 'events',
      place: 1,
      record: 'response_start',
      path: 'payload.response_id',
      a: 'recorded-turn',
      b: 'other-turn',
    })
  })

  test('times, on request', () => {
    const later = toolsEvents().map(({ at, event }) => ({ at: at + 5, event }))
    expect(compareCassettes(turn, cassetteOf({ events: later }), { times: true })).toMatchObject({
      layer: 'events',
      place: 1,
      path: 'at',
      a: 0,
      b: 5,
    })
    const calls = [recordedCall('chat', 1, 64)]
    const chunks = [recordedCall('chat', 1, 128)]
    const options = { times: true, layers: ['vendor'] as const }
    expect(compareCassettes(cassetteOf({ calls }), cassetteOf({ calls }), options)).toBeUndefined()
    expect(
      compareCassettes(cassetteOf({ calls }), cassetteOf({ calls: chunks }), options),
    ).toMatchObject({ layer: 'vendor', record: 'call 1' })
  })

  test('which call an output answers', () => {
    const swapped = JSON.parse(
      JSON.stringify(toolsEvents()).replaceAll(
        /("function_call_output","id":"[^"]+","call_id":"recorded-call-)(\d)/g,
        (_, start: string, n: string) => `${start}${n === '1' ? '2' : n === '2' ? '1' : n}`,
      ),
    ) as TimedEvent[]
    const found = compareCassettes(turn, cassetteOf({ events: swapped }))
    expect(found).toMatchObject({ layer: 'events', record: 'item_done' })
    expect(found?.path).toBe('payload.final_item.call_id')
  })

  test('text of the vendor, with its place', () => {
    const call = recordedCall('anthropic')
    const a = cassetteOf({ calls: [call] })
    const b = cassetteOf({
      calls: [replaceText(call, '"text_delta","text":"', '"text_delta","text":"X')],
    })
    const found = compareCassettes(a, b)
    expect(found).toMatchObject({ layer: 'vendor', record: 'call 1' })
    expect(found?.path).toBe('delta.text')
    expect(found?.b).toBe(`X${String(found?.a)}`)
    const events = compareCassettes(a, b, { layers: ['events'] })
    expect(events).toMatchObject({ layer: 'events', record: 'item_delta' })
    expect(compareCassettes(a, b, { layers: ['outputs'] })).toMatchObject({
      layer: 'outputs',
      record: 'message',
      path: 'content',
    })
  })

  test('the status of a refused call and its text', () => {
    const refused = (text: string): CassetteCall => ({
      ...recordedCall('chat'),
      response: { at: 1, status: 429, headers: {} },
      chunks: [{ at: 2, bytes: new TextEncoder().encode(text) }],
    })
    const options = { layers: ['vendor'] as const }
    const a = cassetteOf({ calls: [refused('{"error":1}')] })
    expect(compareCassettes(a, a, options)).toBeUndefined()
    expect(compareCassettes(a, cassetteOf({ calls: [refused('no')] }), options)).toMatchObject({
      place: 2,
      a: '{"error":1}',
      b: 'no',
    })
    const accepted = cassetteOf({ calls: [recordedCall('chat')] })
    expect(compareCassettes(a, accepted, options)).toMatchObject({ path: 'status', a: 429, b: 200 })
  })

  test('a response that is not a stream', () => {
    const json = (text: string): Cassette => {
      const chunks = [{ at: 2, bytes: new TextEncoder().encode(text) }]
      return cassetteOf({ calls: [{ ...recordedCall('chat'), chunks }] })
    }
    const options = { layers: ['vendor'] as const }
    expect(compareCassettes(json('<p>a'), json('<p>a'), options)).toBeUndefined()
    expect(compareCassettes(json('<p>a'), json('<p>b'), options)).toMatchObject({ b: '<p>b' })
  })

  test('one is longer', () => {
    const short = cassetteOf({ events: toolsEvents().slice(0, -1) })
    expect(compareCassettes(turn, short)).toMatchObject({
      layer: 'events',
      record: 'response_done',
      path: '',
      b: undefined,
    })
  })

  test('every snapshot, with times', () => {
    const options = { times: true, layers: ['outputs'] as const }
    expect(compareCassettes(turn, turn, options)).toBeUndefined()
    const fast = toolsEvents().map(({ event }) => ({ at: 0, event }))
    expect(compareCassettes(turn, cassetteOf({ events: fast }), options)).toMatchObject({
      layer: 'outputs',
    })
  })
})

function splitDeltas(events: readonly TimedEvent[]): TimedEvent[] {
  return events.flatMap(({ at, event }) => {
    const { payload } = event
    if (payload.type !== 'item_delta') return [{ at, event }]
    const { delta_content: text } = payload
    return [text.slice(0, 1), text.slice(1)].map((delta_content) => ({
      at,
      event: { ...event, payload: { ...payload, delta_content } } as typeof event,
    }))
  })
}

function* withHeartbeat(events: readonly TimedEvent[]): Generator<TimedEvent> {
  for (const [index, { at, event }] of events.entries()) {
    yield { at, event }
    if (index !== 3) continue
    const type = 'heartbeat'
    yield { at, event: { ...event, type, payload: { type } } }
  }
}
