import { describe, expect, test } from 'vitest'
import { StoredOutput } from '../../../src/log/records.ts'
import type { LogRecord } from '../../../src/log/turn-log.ts'
import {
  AppendFrames,
  Frame,
  SharedAppends,
  WholeFrames,
} from '../../../src/server/streams/frames.ts'
import { message } from '../../../src/testing/turn-log/texts.ts'

function record(data: string, offset = '1-1'): LogRecord {
  return StoredOutput.read(offset, { data, key: 'a', eventId: 'e', timestamp: 1 })
}

const textOf = ({ bytes }: Frame): string => Buffer.from(bytes).toString()

describe('a frame', () => {
  test.each(['', 'a', 'äöü 漢字 😀', 'x'.repeat(16), 'x'.repeat(70_000), '\r\n\r\n'])(
    'is a chunk of HTTP, and inside it the text (%#)',
    (text) => {
      const frame = new Frame(text)
      const size = Buffer.byteLength(text).toString(16)
      expect(frame.chunk.toString()).toBe(`${size}\r\n${text}\r\n`)
      expect(textOf(frame)).toBe(text)
    },
  )
})

describe('whole records', () => {
  test('have an id or none', () => {
    const frames = new WholeFrames()
    const data = '{"type":"x"}'
    expect(textOf(frames.frameOf(record(data), '1-7'))).toBe(`id: 1-7\ndata: ${data}\n\n`)
    expect(textOf(frames.frameOf(record(data), undefined))).toBe(`data: ${data}\n\n`)
  })

  test('are encoded once for all who get them with the same id', () => {
    const frames = new WholeFrames()
    const one = record('{}')
    expect(frames.frameOf(one, '1-1')).toBe(frames.frameOf(one, '1-1'))
    expect(frames.frameOf(one, undefined)).toBe(frames.frameOf(one, undefined))
    expect(frames.frameOf(one, '1-2').id).toBe('1-2')
    expect(frames.frameOf(record('{}'), '1-2')).not.toBe(frames.frameOf(one, '1-2'))
  })
})

describe('appends', () => {
  const texts = ['Hello', 'Hello, ', 'Hello, world']
  const records = texts.map((text, index) => record(message('t', 'a', text), `1-${index + 1}`))
  const [first, second, third] = records as [LogRecord, LogRecord, LogRecord]

  test('begin with the whole record, and are what was added after that', () => {
    const frames = new AppendFrames(new SharedAppends(new WholeFrames()))
    const sent = records.map((each) => textOf(frames.frameOf(each, each.offset)))
    const status = '"status":"update"'
    expect(sent).toEqual([
      `id: 1-1\ndata: ${first.data}\n\n`,
      `id: 1-2\nevent: append\ndata: {"itemId":"a","at":5,"text":", ","length":7,${status}}\n\n`,
      `id: 1-3\nevent: append\ndata: {"itemId":"a","at":7,"text":"world","length":12,${status}}\n\n`,
    ])
  })

  test('have no id inside a block', () => {
    const frames = new AppendFrames(new SharedAppends(new WholeFrames()))
    frames.frameOf(first, undefined)
    expect(textOf(frames.frameOf(second, undefined))).toMatch(/^event: append\ndata: /)
  })

  test('are encoded once for those who are equally far, and never mixed up with others', () => {
    const shared = new SharedAppends(new WholeFrames())
    const [one, two, behind, late] = Array.from({ length: 4 }, () => new AppendFrames(shared))
    for (const frames of [one, two]) {
      frames?.frameOf(first, '1-1')
      frames?.frameOf(second, '1-2')
    }
    behind?.frameOf(first, '1-1')
    const append = one?.frameOf(third, '1-3')
    expect(two?.frameOf(third, '1-3')).toBe(append)
    expect(textOf(behind?.frameOf(third, '1-3') as Frame)).toContain('"at":5,"text":", world"')
    expect(late?.frameOf(third, '1-3')).toBe(shared.whole.frameOf(third, '1-3'))
  })
})
