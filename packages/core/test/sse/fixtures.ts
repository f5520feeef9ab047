import type { SseEvent } from '../../src/index.ts'

interface Fixture {
  name: string
  stream: string
  events: SseEvent[]
  lastEventId?: string
  retryMs?: number
}

function event(data: string, rest: Partial<SseEvent> = {}): SseEvent {
  return { event: '', data, id: '', ...rest }
}

/** Streams and what they say. Every one is read at every cut, as bytes and as text. */
export const FIXTURES: Fixture[] = [
  {
    name: 'the stock ticker of the standard: data lines are joined',
    stream: 'data: YHOO\ndata: +2\ndata: 10\n\n',
    events: [event('YHOO\n+2\n10')],
  },
  {
    name: 'the four blocks of the standard: a comment, ids, an id reset, a space kept',
    stream:
      ': test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n',
    events: [event('first event', { id: '1' }), event('second event')],
  },
  {
    name: 'the empty data of the standard: two events, and a block that the end cuts off',
    stream: 'data\n\ndata\ndata\n\ndata:',
    events: [event(''), event('\n')],
  },
  {
    name: 'the two identical events of the standard: one space after the colon does not count',
    stream: 'data:test\n\ndata: test\n\n',
    events: [event('test'), event('test')],
  },
  {
    name: 'the named events of the standard',
    stream: 'event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\ndata: 113411\n\n',
    events: [
      event('73857293', { event: 'add' }),
      event('2153', { event: 'remove' }),
      event('113411'),
    ],
  },
  {
    name: 'chat completions: unnamed JSON and a last word',
    stream: 'data: {"id":"c","choices":[{"delta":{"content":"Grüß"}}]}\n\ndata: [DONE]\n\n',
    events: [event('{"id":"c","choices":[{"delta":{"content":"Grüß"}}]}'), event('[DONE]')],
  },
  {
    name: 'messages: names, and a ping',
    stream:
      'event: ping\ndata: {"type": "ping"}\n\nevent: content_block_delta\ndata: {"index":0}\n\n',
    events: [
      event('{"type": "ping"}', { event: 'ping' }),
      event('{"index":0}', { event: 'content_block_delta' }),
    ],
  },
  {
    name: 'a reconnection time and a priming frame, which is recorded and not dispatched',
    stream: 'retry: 1000\n\nid: 17\n\ndata: a\n\nid: 18\ndata: b\n\nid: 19\n\n',
    events: [event('a', { id: '17' }), event('b', { id: '18' })],
    lastEventId: '19',
    retryMs: 1000,
  },
  {
    name: 'an id holds until the next one; with U+0000 it is ignored',
    stream: 'id: a\ndata: 1\n\ndata: 2\n\nid: b\0\ndata: 3\n\nid: c\nid: d\ndata: 4\n\n',
    events: [
      event('1', { id: 'a' }),
      event('2', { id: 'a' }),
      event('3', { id: 'a' }),
      event('4', { id: 'd' }),
    ],
    lastEventId: 'd',
  },
  {
    name: 'an id whose block the end cuts off is not recorded',
    stream: 'id: 1\ndata: a\n\nid: 2\ndata: b\n',
    events: [event('a', { id: '1' })],
    lastEventId: '1',
  },
  {
    name: 'a reconnection time must be ASCII digits, and the last one counts',
    stream:
      'retry: 10\nretry: 1e3\nretry: -1\nretry:\nretry:  7\nretry: ٣\nretry: 3000\nretry: 9 \n',
    events: [],
    retryMs: 3000,
  },
  {
    name: 'a name belongs to its block, also when that block has no data',
    stream:
      'event: lost\n\ndata: a\n\nevent: b\nevent: c\ndata: d\n\nevent: e\nevent:\ndata: f\n\n',
    events: [event('a'), event('d', { event: 'c' }), event('f')],
  },
  {
    name: 'fields that do not exist are ignored, in any spelling that is almost right',
    stream:
      'Data: a\n data: b\ndata : c\ndat\ndatas: d\neventx: e\nids: f\nretry5\nx\n=\ndata: g\n\n',
    events: [event('g')],
  },
  {
    name: 'fields without a colon have an empty value, whatever the next line begins with',
    stream: 'id: 1\nevent: a\ndata: x\n\nid\n  z\nevent\n  z\ndata\n  z\n\n',
    events: [event('x', { event: 'a', id: '1' }), event('')],
  },
  {
    name: 'comments and colons in values',
    stream: ':\n: data: no\n:data: no\ndata: a:b: c\ndata::\n\n::\n\n',
    events: [event('a:b: c\n:')],
  },
  {
    name: 'a byte order mark is dropped once, and only at the start',
    stream: '\uFEFFdata: a\n\n\uFEFFdata: b\n\ndata: \uFEFFc\n\n',
    events: [event('a'), event('\uFEFFc')],
  },
  {
    name: 'two byte order marks: the second is part of the first line',
    stream: '\uFEFF\uFEFFdata: a\n\ndata: b\n\n',
    events: [event('b')],
  },
  {
    name: 'characters of one to four bytes, and line separators that are not line breaks',
    stream: 'data: aß€😀\u0085\u2028\u2029\v\f\nevent: 日本\nid: 😀\n\n',
    events: [event('aß€😀\u0085\u2028\u2029\v\f', { event: '日本', id: '😀' })],
    lastEventId: '😀',
  },
  {
    name: 'CR, LF and CRLF mixed: LF CR ends two lines, CR LF one',
    stream: 'data: a\r\ndata: b\rdata: c\n\rdata: d\r\rdata: e\r\n\r\ndata: f\r\n\ndata: g\n\r\n',
    events: [event('a\nb\nc'), event('d'), event('e'), event('f'), event('g')],
  },
  {
    name: 'line breaks at the start, and nothing else',
    stream: '\r\n\n\r\n\r\r\n',
    events: [],
  },
]
