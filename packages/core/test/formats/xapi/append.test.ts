import { describe, expect, test } from 'vitest'
import {
  AppendEncoder,
  appendFrameOf,
  appendSse,
  textSnapshotOf,
} from '../../../src/formats/xapi/write.ts'
import {
  type AppendFrame,
  applyAppend,
  type ItemSnapshot,
  type MessageSnapshot,
  SseDecoder,
  type StreamOutput,
} from '../../../src/index.ts'

const IDS = { turnId: 't', threadId: 'h', itemId: 'a' }
const BASE = { type: 'message', ...IDS, origin: 'agent' } as const

function said(content: string, more: Partial<MessageSnapshot> = {}): MessageSnapshot {
  return { ...BASE, status: 'update', content, ...more }
}

/** What a connection is sent of these snapshots. */
function sent(outputs: readonly StreamOutput[]): (AppendFrame | 'whole')[] {
  const encoder = new AppendEncoder()
  return outputs.map((output) => {
    const snapshot = textSnapshotOf(output)
    const at = snapshot && encoder.place(snapshot)
    return snapshot === undefined || at === undefined ? 'whole' : appendFrameOf(snapshot, at)
  })
}

function added(at: number, text: string, status: ItemSnapshot['status'] = 'update'): AppendFrame {
  return { itemId: 'a', at, text, length: at + text.length, status }
}

interface Case {
  readonly name: string
  readonly outputs: readonly StreamOutput[]
  readonly frames: readonly (AppendFrame | 'whole')[]
}

const call = {
  type: 'tool_call',
  ...IDS,
  ...{ content: '', toolName: 'look', toolArguments: {}, callId: 'c' },
} as const

const CASES: readonly Case[] = [
  {
    name: 'the first snapshot of an item is whole, later ones are appends',
    outputs: [said('He', { status: 'create' }), said('Hello'), said('Hello!')],
    frames: ['whole', added(2, 'llo'), added(5, '!')],
  },
  {
    name: 'a finish that adds text is an append with its status',
    outputs: [said('He'), said('Hello', { status: 'complete' })],
    frames: ['whole', added(2, 'llo', 'complete')],
  },
  {
    name: 'a finish that adds nothing is an empty append',
    outputs: [said('He'), said('He', { status: 'complete' })],
    frames: ['whole', added(2, '', 'complete')],
  },
  {
    name: 'a finish with another text is whole, and later appends continue from it',
    outputs: [said('He'), said('No', { status: 'complete' }), said('No.', { status: 'complete' })],
    frames: ['whole', 'whole', added(2, '.', 'complete')],
  },
  {
    name: 'a finish with a shorter text is whole',
    outputs: [said('Hello'), said('He', { status: 'complete' })],
    frames: ['whole', 'whole'],
  },
  {
    name: 'an error is whole, because an append cannot carry its code',
    outputs: [
      said('He'),
      said('He', { status: 'error', errorCode: 'X', errorMessage: 'it broke' }),
    ],
    frames: ['whole', 'whole'],
  },
  {
    name: 'an error without other changes is an append',
    outputs: [said('He'), said('He!', { status: 'error' })],
    frames: ['whole', added(2, '!', 'error')],
  },
  {
    name: 'any other change makes a snapshot whole',
    outputs: [
      said('He'),
      said('Hello', { origin: 'system' }),
      said('Hello.', { origin: 'system' }),
    ],
    frames: ['whole', 'whole', added(5, '.')],
  },
  {
    name: 'a tool call is always whole',
    outputs: [
      { ...call, status: 'create' },
      { ...call, status: 'complete' },
    ],
    frames: ['whole', 'whole'],
  },
  {
    name: 'turn events are whole',
    outputs: [
      { type: 'turn_started', turnId: 't', threadId: 'h' },
      { type: 'turn_complete', turnId: 't', threadId: 'h', status: 'complete' },
    ],
    frames: ['whole', 'whole'],
  },
  {
    name: 'items do not mix',
    outputs: [
      said('one'),
      said('two', { itemId: 'b' }),
      said('one.'),
      said('two.', { itemId: 'b' }),
    ],
    frames: ['whole', 'whole', added(3, '.'), { ...added(3, '.'), itemId: 'b' }],
  },
  {
    name: 'thinking is a text',
    outputs: [
      { type: 'thinking', ...IDS, status: 'create', content: 'Hm', providerId: 'p' },
      { type: 'thinking', ...IDS, status: 'update', content: 'Hmm', providerId: 'p' },
    ],
    frames: ['whole', added(2, 'm')],
  },
  {
    name: 'positions count UTF-16 units',
    outputs: [said('😀漢'), said('😀漢ä')],
    frames: ['whole', added(3, 'ä')],
  },
  {
    name: 'a text may be split inside a surrogate pair',
    outputs: [said('a\ud83d'), said('a\ud83d\ude00')],
    frames: ['whole', added(2, '\ude00')],
  },
]

describe('W3 what is appended', () => {
  test.each(CASES)('$name', ({ outputs, frames }) => {
    expect(sent(outputs)).toEqual(frames)
  })

  test.each([undefined, null, [], 'message', { type: 'message' }])(
    'an unknown output is sent unchanged: %j',
    (output) => {
      expect(textSnapshotOf(output as unknown as StreamOutput)).toBeUndefined()
    },
  )

  test.each([
    { itemId: 1, content: '', status: 'update' },
    { itemId: 'a', content: 1, status: 'update' },
    { itemId: 'a', content: '', status: 'other' },
  ])('a text without what an append needs is sent as it is: %o', (fields) => {
    expect(
      textSnapshotOf({ type: 'message', ...fields } as unknown as StreamOutput),
    ).toBeUndefined()
  })
})

describe('the frame of an append', () => {
  test('is named, and its data is one JSON object', () => {
    expect(appendSse('1-2', added(2, 'l"lo\n'))).toBe(
      'id: 1-2\nevent: append\n' +
        'data: {"itemId":"a","at":2,"text":"l\\"lo\\n","length":7,"status":"update"}\n\n',
    )
    expect(appendSse(undefined, added(0, ''))).toMatch(/^event: append\n/)
  })

  test('keeps a lone surrogate through UTF-8 and back', () => {
    const frame = added(2, '\ude00 and \ud83d')
    const bytes = new TextEncoder().encode(appendSse('1-1', frame))
    const [event] = new SseDecoder().feed(bytes)
    expect(JSON.parse(event?.data ?? '')).toEqual(frame)
  })
})

describe('applying an append', () => {
  test.each(CASES)('gives back every snapshot: $name', ({ outputs }) => {
    const items = new Map<string, StreamOutput>()
    const frames = sent(outputs)
    for (const [index, output] of outputs.entries()) {
      const frame = frames[index]
      if (frame === 'whole' || frame === undefined) {
        items.set('itemId' in output ? output.itemId : output.type, output)
      } else {
        const grown = applyAppend(items.get(frame.itemId) as ItemSnapshot, frame)
        expect(grown).toEqual(output)
        items.set(frame.itemId, grown as ItemSnapshot)
      }
    }
  })

  test.each([
    { name: 'a gap', frame: added(3, 'x') },
    { name: 'what is there already', frame: added(1, 'x') },
    { name: 'another item', frame: { ...added(2, 'x'), itemId: 'b' } },
    { name: 'a wrong length', frame: { ...added(2, 'x'), length: 9 } },
  ])('refuses $name', ({ frame }) => {
    expect(applyAppend(said('He'), frame)).toBeUndefined()
  })

  test('does not modify the given item', () => {
    const item = said('He')
    applyAppend(item, added(2, 'llo'))
    expect(item.content).toBe('He')
  })
})
