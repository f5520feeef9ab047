import { expect, test } from 'vitest'
import { encodeHeader } from '../../src/cassettes/cassette.ts'
import { V2Reader } from '../../src/formats/v2/read.ts'
import { decodeRecording, type StreamEvent } from '../../src/index.ts'
import { OpenItems } from '../../src/items/open-items.ts'
import { decode } from '../cassettes/samples.ts'
import { delta, event, open, responseDone, start } from '../processor/events.ts'

const DONE = event({
  type: 'item_done',
  item_id: 'fc-001',
  final_item: { call_id: 'call-001' },
} as never)
const EVENTS = [
  start(),
  open('fc-001', { item_type: 'function_call', name: 'read_file' }),
  delta('fc-001', '{"path":'),
  delta('fc-001', '"a"}'),
  DONE,
  responseDone(),
]
const WHOLE = {
  type: 'function_call',
  id: 'fc-001',
  name: 'read_file',
  arguments: '{"path":"a"}',
  call_id: 'call-001',
}

/** Readers of stored streams, which see all events of a turn. */
const READERS: Record<string, (events: readonly StreamEvent[]) => readonly StreamEvent[]> = {
  'a recording': (events) => {
    const decoded = decodeRecording(events.map((each) => JSON.stringify(each)).join('\n'))
    return decoded.ok ? decoded.value : []
  },
  'a cassette': (events) => {
    const lines = events.map((each, at) => `${JSON.stringify({ at, event: each })}\n`)
    return decode(encodeHeader({ createdAt: 1000 }) + lines.join('')).events.map(
      ({ event: read }) => read,
    )
  },
  'a file of raw events': (events) => {
    const source = new V2Reader()
    const text = events.map((each) => `${JSON.stringify(each)}\n`).join('')
    return [...source.feed(new TextEncoder().encode(text)), ...source.end()]
  },
}

test.each(Object.keys(READERS))('%s completes a final_item from what was said', (name) => {
  const read = READERS[name]?.(EVENTS) ?? []
  const items = read.map(({ payload }) => (payload.type === 'item_done' ? payload.final_item : 0))
  expect(items).toEqual([0, 0, 0, 0, WHOLE, 0])
})

test('an item that has ended says nothing', () => {
  const items = new OpenItems()
  for (const { payload } of EVENTS.slice(0, 4)) items.apply(payload)
  expect(items.soFar('fc-001')).toMatchObject({ name: 'read_file', arguments: '{"path":"a"}' })
  items.apply(DONE.payload)
  expect(items.soFar('fc-001')).toBeUndefined()
  expect(items.all).toEqual([])
})
