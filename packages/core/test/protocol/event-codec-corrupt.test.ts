import { describe, expect, test } from 'vitest'
import { type StreamEvent, TurnstreamError } from '../../src/index.ts'
import { decodeChunk, EventDecoder, EventEncoder } from '../../src/protocol/event-codec.ts'
import { deltaOf, deltasOf, eventOf, ID_PREFIX, linesOf, parsed, TIME } from './event-texts.ts'

function codeOf(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    return error instanceof TurnstreamError ? error.code : String(error)
  }
  return 'nothing thrown'
}

describe('an unreadable line', () => {
  const [definition = ''] = linesOf([deltaOf('abcd')])
  /** The definition with one of its numbers changed. */
  const changed = (place: number, value: string | number) => {
    const [head = '', ...rest] = definition.split(';')
    const numbers = head.slice(1).split(',')
    numbers[place] = String(value)
    return [`+${numbers.join(',')}`, ...rest].join(';')
  }
  const before = Number(definition.split(',')[5])

  const rows: [what: string, line: string][] = [
    ['is empty', ''],
    ['begins like none', '?abc'],
    ['begins with a space', ' {}'],
    ['begins with a character past the codes', 'p0abc'],
    ['begins with a character before the codes', '/0abc'],
    ['begins beyond ASCII', 'é'],
    ['names a template that is not defined', '10abc'],
    ['names a template that is not defined, in full', '!1,1,0;abc'],
    ['has no step', '0'],
    ['has a step before the codes', '0/abc'],
    ['has a step past the codes', '0\u007fabc'],
    ['has half a step', '0`'],
    ['has a second half before the codes', '0`/abc'],
    ['has a second half past the codes', '0`\u007f'],
    ['has no numbers', '!'],
    ['has two numbers', '!0,1;abc'],
    ['has an empty number', '!0,,0;abc'],
    ['has a number that is none', '!0,1,x;abc'],
    ['has a fraction', '!0,1,1.5;abc'],
    ['has a plus sign', '!0,+1,0;abc'],
    ['has no end of its numbers', '!0,1,0abc'],
    ['has a number of too many digits', '!0,1,12345678901234567;abc'],
    ['leads below the first counter', '!0,-2,0;abc'],
    ['leads past the last counter', '!0,4294967295,0;abc'],
    ['leads below the first timestamp', `!0,1,-${TIME + 1};abc`],
    ['leads past the safe integers', '!0,1,9007199254740991;abc'],
    ['defines without numbers', '+;abc'],
    ['defines with too few numbers', '+0,1,2,3,4,5;abc'],
    ['defines a number before its time', changed(0, 2)],
    ['defines a number far before its time', changed(0, 999)],
    ['defines a counter past the last', changed(1, 4_294_967_296)],
    ['defines a timestamp past the safe integers', changed(2, '9007199254740992')],
    ['shares with a template that does not exist', changed(3, 5)],
    ['shares more than its template has', changed(3, 4096)],
    ['defines a shorter id than it has', changed(4, 27)],
    ['defines a longer id than it has', changed(4, 29)],
    ['defines an id into the rest', changed(4, 200)],
    ['defines a template that begins with no comma', changed(5, 0)],
    ['defines a template that is longer than the line', changed(6, 500)],
    ['defines a template without text', definition.slice(0, definition.indexOf(';') + 1)],
    ['defines an id with an escape', definition.replace(ID_PREFIX, `\\${ID_PREFIX.slice(1)}`)],
    ['defines an id with a quote', definition.replace(ID_PREFIX, `"${ID_PREFIX.slice(1)}`)],
    ['has a text with a quote', '00ab"c'],
    ['has a text with half an escape', '00ab\\'],
    ['has a text with a line break of another kind', '00a\u0001b'],
    ['is half an event', deltaOf('abcd').slice(0, 40)],
    ['is an object without envelope', '{}'],
    ['is an envelope without id', '{"timestamp":1}'],
    ['is an envelope without timestamp', '{"event_id":"a"}'],
    ['is no whole JSON string', '"abc'],
    ['is a JSON string and more', '"abc"d'],
    ['is a JSON string of no event', '"abc"'],
    ['is a JSON string of a JSON string', JSON.stringify(JSON.stringify(deltaOf('a')))],
    ['is an empty JSON string', '""'],
  ]

  test.each(rows)('because it %s is corrupt', (_, line) => {
    const decoder = new EventDecoder()
    decoder.decode(definition)
    expect(codeOf(() => decoder.decode(line))).toBe('STORE_CORRUPT')
    expect(codeOf(() => decodeChunk(`${definition}\n${line}`))).toBe('STORE_CORRUPT')
  })

  test('at the start of a chunk is corrupt', () => {
    const lines = linesOf(deltasOf(['a', 'b', 'c']))
    expect(codeOf(() => decodeChunk(lines.slice(1).join('\n')))).toBe('STORE_CORRUPT')
  })

  test('after a lost definition is corrupt', () => {
    const lines = linesOf(['a', 'b', 'c'].map((itemId) => deltaOf('x', { itemId })))
    expect(codeOf(() => decodeChunk([lines[0], lines[2]].join('\n')))).toBe('STORE_CORRUPT')
    expect(codeOf(() => decodeChunk([lines[1], lines[2]].join('\n')))).toBe('STORE_CORRUPT')
  })

  test('reports what is wrong and why', () => {
    const message = (line: string) => {
      try {
        new EventDecoder().decode(line)
      } catch (error) {
        return error instanceof Error ? [error.message, error.cause] : []
      }
      return []
    }
    expect(message('00a')).toEqual([
      'The store is damaged: line of an event log: template 0 is not defined',
      undefined,
    ])
    expect(message('{}')[1]).toMatchObject({ code: 'RECORD_INVALID' })
  })

  test('has its counterpart: the definition of these rows is readable', () => {
    expect(changed(5, before)).toBe(definition)
    expect(decodeChunk(definition)).toHaveLength(1)
  })
})

describe('an event without an envelope', () => {
  const rows: [what: string, event: unknown][] = [
    ['nothing', undefined],
    ['null', null],
    ['a number', 5],
    ['a string', '{"event_id":"a","timestamp":1}'],
    ['a list', [{ event_id: 'a', timestamp: 1 }]],
    ['an empty object', {}],
    ['no event id', { timestamp: 1 }],
    ['an event id that is a number', { event_id: 1, timestamp: 1 }],
    ['an event id that is null', { event_id: null, timestamp: 1 }],
    ['no timestamp', { event_id: 'a' }],
    ['a timestamp that is a string', { event_id: 'a', timestamp: '1' }],
    ['a timestamp that is null', { event_id: 'a', timestamp: null }],
    ['a timestamp past all numbers', { event_id: 'a', timestamp: Infinity }],
    ['a timestamp that is no number', { event_id: 'a', timestamp: Number.NaN }],
  ]

  test.each(rows)('(%s) is refused before it is stored', (_, event) => {
    const encoder = new EventEncoder()
    const records = deltasOf(['a', 'b', 'c'])
    const lines = records.map((data) => {
      expect(codeOf(() => encoder.encode(event as StreamEvent))).toBe('RECORD_INVALID')
      return encoder.encode(parsed(data))
    })
    // What was refused has left no trace.
    expect(lines).toEqual(linesOf(records))
  })

  test('that has no JSON leaves nothing behind', () => {
    const encoder = new EventEncoder()
    const records = deltasOf(['a', 'b', 'c'])
    const circular: Record<string, unknown> = { type: 'x' }
    circular['self'] = circular
    const lines = records.map((data) => {
      const event = { ...parsed(data), type: 'x', payload: circular } as unknown as StreamEvent
      expect(() => encoder.encode(event)).toThrow(TypeError)
      return encoder.encode(parsed(data))
    })
    expect(lines).toEqual(linesOf(records))
  })
})

describe('the envelope of an event', () => {
  const rows: [what: string, data: string, eventId: string, timestamp: number][] = [
    ['in our form', deltaOf('a', { counter: 255 }), `${ID_PREFIX}000000ff`, TIME],
    ['of another type', eventOf({ type: 'heartbeat' }), `${ID_PREFIX}00000001`, TIME],
    ['in another order', '{"timestamp":5,"event_id":"a"}', 'a', 5],
    ['with nothing else', '{"event_id":"00000001","timestamp":5}', '00000001', 5],
    ['with an empty id', '{"event_id":"","timestamp":5}', '', 5],
    ['with a quote in its id', '{"event_id":"a\\"00000001","timestamp":5,"a":1}', 'a"00000001', 5],
    ['with a random id', '{"event_id":"ABC","timestamp":5,"a":1}', 'ABC', 5],
    ['with a fraction', '{"event_id":"00000001","timestamp":5.25,"a":1}', '00000001', 5.25],
    ['from before 1970', '{"event_id":"00000001","timestamp":-1,"a":1}', '00000001', -1],
    ['of 1970', '{"event_id":"00000001","timestamp":0,"a":1}', '00000001', 0],
    ['of a far future', '{"event_id":"00000001","timestamp":1e300,"a":1}', '00000001', 1e300],
  ]

  test.each(rows)('%s is restored', (_, data, eventId, timestamp) => {
    const [event] = decodeChunk(linesOf([data]).join('\n'))
    expect(event).toEqual(parsed(data))
    expect(event).toMatchObject({ event_id: eventId, timestamp })
  })
})
