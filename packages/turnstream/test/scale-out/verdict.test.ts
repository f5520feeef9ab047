import { expect, test } from 'vitest'
import { type Frame, Reader } from '../../../../scripts/scale-out/reader.mjs'
import { checkReaders } from '../../../../scripts/scale-out/verdict.mjs'

function event(seq: number, type: string, payload: object = {}): Frame {
  return { id: `1-${seq}`, event: '', data: { type, payload: { type, ...payload } } }
}

function delta(seq: number, text: string): Frame {
  return event(seq, 'item_delta', { item_id: 'run:1', delta_content: text })
}

function snapshot(content: string): Frame {
  return {
    id: '1-1',
    event: '',
    data: { type: 'message', itemId: 'run:1', origin: 'agent', content },
  }
}

const LOST = { error: { code: 'PRODUCER_LOST', message: 'gone' } }
const TURN_ERROR: Frame = { id: '1-9', event: '', data: { type: 'turn_error' } }

function append(at: number, text: string): Frame {
  const data = { itemId: 'run:1', at, text, length: at + text.length, status: 'update' }
  return { id: '1-2', event: 'append', data }
}

/** What the readers of a turn have seen that was killed in the middle. */
function readers() {
  const frames = {
    events: [
      event(1, 'response_start'),
      delta(2, 'to'),
      delta(3, 'ken'),
      event(4, 'response_error', LOST),
    ],
    outputs: [snapshot('to'), snapshot('token'), TURN_ERROR],
    appended: [snapshot('to'), append(2, 'ken'), TURN_ERROR],
    moved: [
      event(1, 'response_start'),
      delta(2, 'to'),
      delta(3, 'ken'),
      event(4, 'response_error', LOST),
    ],
  }
  return frames
}

type Frames = ReturnType<typeof readers>

function check(frames: Frames): void {
  const of = (own: Frame[]) => Object.assign(new Reader('/'), { frames: own })
  checkReaders({
    events: of(frames.events),
    outputs: of(frames.outputs),
    appended: of(frames.appended),
    moved: of(frames.moved),
  })
}

test('a correctly read turn passes', () => {
  expect(() => check(readers())).not.toThrow()
})

const FAULTS: [what: string, spoil: (frames: Frames) => void, says: string][] = [
  ['an event is missing', (of) => of.events.splice(1, 1), 'event 3 came where 2 belongs'],
  ['an event comes twice', (of) => of.events.splice(1, 0, delta(2, 'to')), 'where 3 belongs'],
  ['there are two ends', (of) => of.events.push(event(5, 'response_error', LOST)), '2 ends'],
  ['there is no end', (of) => of.events.pop(), '0 ends'],
  [
    'the end is untrue',
    (of) => of.events.splice(3, 1, event(4, 'response_done', { status: 'complete' })),
    'the end is',
  ],
  ['a reader that moved has missed something', (of) => of.moved.splice(1, 1), 'moved to another'],
  ['a snapshot lacks text', (of) => of.outputs.splice(1, 1), 'lack text'],
  ['a snapshot shrinks', (of) => of.outputs.splice(2, 0, snapshot('t')), 'has shrunk'],
  ['the snapshots have no end', (of) => of.outputs.pop(), 'another end'],
  ['an append has a gap', (of) => of.appended.splice(1, 1, append(3, 'en')), 'an append at 3 to 2'],
  ['an append is missing', (of) => of.appended.splice(1, 1), 'appends give another text'],
]

test.each(FAULTS)('it is noticed when %s', (_what, spoil, says) => {
  const frames = readers()
  spoil(frames)
  expect(() => check(frames)).toThrow(says)
})
