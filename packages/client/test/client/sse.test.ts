import { expect, test, vi } from 'vitest'
import { createFrameReader, type Frame } from '../../src/client/sse.ts'

function read(texts: Iterable<string>): Frame[] {
  const reader = createFrameReader()
  return Array.from(texts).flatMap((text) => reader(text))
}

const STREAM = [
  'retry: 1000\n: heartbeat every 15000 ms\n\nid: 0-0\n\n',
  'data: {"a":1}\n\n',
  'id: 1-2\nevent: append\ndata:{"text":"x: y\u2028\u2029event: z"}\n\n',
  ': ping\n\n',
  'data: last\n\n',
  'data: cut off\n',
].join('')

const FRAMES = [
  { id: '', retry: '1000', '': 'heartbeat every 15000 ms' },
  { id: '0-0' },
  { id: '0-0', data: '{"a":1}' },
  { event: 'append', id: '1-2', data: '{"text":"x: y\u2028\u2029event: z"}' },
  { id: '1-2', '': 'ping' },
  { id: '1-2', data: 'last' },
]

test.each([
  ['as the gateway sends it', STREAM],
  ['with the line ends of a proxy', STREAM.replaceAll('\n', '\r\n')],
])('a stream %s is read, wherever it is cut', (_name, stream) => {
  for (let at = 0; at <= stream.length; at++) {
    expect(read([stream.slice(0, at), stream.slice(at)])).toEqual(FRAMES)
  }
  expect(read(stream)).toEqual(FRAMES)
})

test.each([
  ['a line that never ends', 'x'.repeat(10_000_000)],
  ['a frame that never ends', `data: ${'x'.repeat(10_000_000)}\n`],
])('%s is refused at 32 Mi characters', (_name, text) => {
  const reader = createFrameReader()
  const endless = () => {
    for (let count = 0; count < 4; count++) reader(text)
  }
  expect(endless).toThrow(expect.objectContaining({ code: 'EVENT_TOO_LARGE' }))
})

test('a long frame in small pieces is searched once', () => {
  const piece = 'x'.repeat(1000)
  const reader = createFrameReader()
  const split = vi.spyOn(String.prototype, 'split')
  reader('data: ')
  for (let count = 0; count < 1000; count++) reader(piece)
  const [frame] = reader('\n\n')
  const searched = split.mock.contexts.reduce((sum: number, text) => sum + String(text).length, 0)
  split.mockRestore()
  expect(frame?.data).toHaveLength(1_000_000)
  expect(searched).toBeLessThan(1_100_000)
})
