import { describe, expect, test } from 'vitest'
import { message } from '../../../../conformance/src/turn-log/texts.ts'
import type { LogRecord } from '../../../../core/src/log/turn-log.ts'
import { StoredOutput } from '../../../src/log/records.ts'
import { Frame, RecordFrames } from '../../../src/server/streams/frames.ts'

function record(data: string, offset = '1-1'): LogRecord {
  return StoredOutput.read(offset, { data, key: 'a', eventId: 'e', timestamp: 1 })
}

const textOf = ({ bytes }: Frame): string => Buffer.from(bytes).toString()

describe('a frame', () => {
  test.each(['', 'a', 'äöü 漢字 😀', 'x'.repeat(16), 'x'.repeat(70_000), '\r\n\r\n'])(
    'is an HTTP chunk around the text (%#)',
    (text) => {
      const frame = new Frame(text)
      const size = Buffer.byteLength(text).toString(16)
      expect(frame.chunk.toString()).toBe(`${size}\r\n${text}\r\n`)
      expect(textOf(frame)).toBe(text)
    },
  )
})

describe('complete records', () => {
  test('have an id or none', () => {
    const toFrame = new RecordFrames().encoder('snapshot')
    const data = '{"type":"x"}'
    expect(textOf(toFrame(record(data), '1-7'))).toBe(`id: 1-7\ndata: ${data}\n\n`)
    expect(textOf(toFrame(record(data), undefined))).toBe(`data: ${data}\n\n`)
  })

  test('are encoded once for all readers with the same id', () => {
    const toFrame = new RecordFrames().encoder('snapshot')
    const one = record('{}')
    expect(toFrame(one, '1-1')).toBe(toFrame(one, '1-1'))
    expect(toFrame(one, undefined)).toBe(toFrame(one, undefined))
    expect(toFrame(one, '1-2').id).toBe('1-2')
    expect(toFrame(record('{}'), '1-2')).not.toBe(toFrame(one, '1-2'))
  })
})

describe('appends', () => {
  const texts = ['Hello', 'Hello, ', 'Hello, world']
  const records = texts.map((text, index) => record(message('t', 'a', text), `1-${index + 1}`))
  const [first, second, third] = records as [LogRecord, LogRecord, LogRecord]

  test('start with the complete record and then contain only what was added', () => {
    const toFrame = new RecordFrames().encoder('append')
    const sent = records.map((each) => textOf(toFrame(each, each.offset)))
    const status = '"status":"update"'
    expect(sent).toEqual([
      `id: 1-1\ndata: ${first.data}\n\n`,
      `id: 1-2\nevent: append\ndata: {"itemId":"a","at":5,"text":", ","length":7,${status}}\n\n`,
      `id: 1-3\nevent: append\ndata: {"itemId":"a","at":7,"text":"world","length":12,${status}}\n\n`,
    ])
  })

  test('have no id inside a block', () => {
    const toFrame = new RecordFrames().encoder('append')
    toFrame(first, undefined)
    expect(textOf(toFrame(second, undefined))).toMatch(/^event: append\ndata: /)
  })

  test('are encoded once for readers at the same position', () => {
    const frames = new RecordFrames()
    const [one, two, behind, late] = Array.from({ length: 4 }, () => frames.encoder('append'))
    for (const toFrame of [one, two]) {
      toFrame?.(first, '1-1')
      toFrame?.(second, '1-2')
    }
    behind?.(first, '1-1')
    const append = one?.(third, '1-3')
    expect(two?.(third, '1-3')).toBe(append)
    expect(textOf(behind?.(third, '1-3') as Frame)).toContain('"at":5,"text":", world"')
    expect(late?.(third, '1-3')).toBe(frames.encoder('snapshot')(third, '1-3'))
  })
})
